"""Properties of the web servers in the daemons."""

from __future__ import annotations

from executor.light import dataclass
from executor.settings import setting


@dataclass(frozen=True, kw_only=True, slots=True)
class WebSettings:
    """Where the ResourceManager and the NodeManagers serve their REST APIs and pages."""

    resourcemanager_address: str = setting("yarn.resourcemanager.webapp.address", "localhost:8088")
    """host:port of the RM's REST API and pages, empty for none; port 0 takes a free one. 0.0.0.0 means 127.0.0.1
    here, unless yopp.webapp.loopback-only is false. If the default port is taken, a free one is used instead. A
    cluster that a job started for itself serves no pages."""
    nodemanager_address: str = setting("yarn.nodemanager.webapp.address", "localhost:8042")
    """host:port of the NMs' REST API and pages, empty for none; port 0 takes a free one. Of several NMs on one
    host, the first has this port and each further one the next, or a free one if that is taken."""
    loopback_only: bool = setting("yopp.webapp.loopback-only", True)
    """The REST APIs and pages are served on loopback only, where the kernel identifies callers: only the cluster's
    own user and root may make changes. With false they are bound to the addresses as written; callers from other
    hosts may look, but change nothing."""
