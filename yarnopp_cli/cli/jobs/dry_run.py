"""``--dry-run`` of jobs: what would run, where it would go, whether it would queue. Nothing is submitted or started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from executor.records import Resource

from ...errors import EXIT_FAILURE, ConnectionFailedError
from ...explain.forecast import Forecast, forecast
from ...jobs.progress import kinds_text
from ...views.explain import consequences as view

if TYPE_CHECKING:
    from ...records.jobs import JobSpec
    from ..frame.session import Session

_MINIMUM_MB = "yarn.scheduler.minimum-allocation-mb"
_MINIMUM_VCORES = "yarn.scheduler.minimum-allocation-vcores"


def tell(session: Session, job: JobSpec, master: Resource | None = None) -> int:
    """Print what would happen to ``job``; the exit code, 1 where it would be refused. ``master`` is the size of a
    detached job's master, None where it runs in the client."""
    found: Forecast | None = None
    printer = session.printer
    try:
        info = session.client.cluster_info()
        known = info.properties
        least = Resource(int(known.get(_MINIMUM_MB, "1024")), int(known.get(_MINIMUM_VCORES, "1")))
        nodes = session.client.nodes()
        found = forecast(
            job,
            nodes,
            session.client.containers(nodes=nodes),
            opportunistic=info.opportunistic_enabled,
            minimum=least,
            master=master,
        )
    except ConnectionFailedError:
        pass  # a cluster would be started for it
    if printer.is_json:
        printer.document({"dryRun": view.job_document(job, found)})
    else:
        printer.text("\n".join(view.job_lines(job, kinds_text(job), found)))
        printer.note("nothing was changed")
    return EXIT_FAILURE if found is not None and (found.refused or found.impossible) else 0
