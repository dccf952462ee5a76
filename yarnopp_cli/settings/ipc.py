"""The properties of the daemons' RPC sockets, under Hadoop's names (``core-default.xml``) if Hadoop has them."""

from __future__ import annotations

from executor.light import Record
from executor.settings import setting


class IpcSettings(Record, kw_only=True):
    """How many callers a daemon's sockets for calls serve at once, and for how long these may be silent."""

    max_connections: int = setting("ipc.server.max.connections", 0, at_least=0)
    """How many connections a daemon may have at once. For a further one, the connection that has been idle for longest
    is closed; if none is idle, the new one is refused. 0: a quarter of the files that the daemon may have open, which
    is the limit in any case."""
    idle_threshold: int = setting("ipc.client.idlethreshold", 4000, at_least=0)
    """This number of connections may be idle without limit. Of further ones, those that are idle for longer than
    twice ipc.client.connection.maxidletime are closed. A connection that waits for an answer is not idle."""
    max_idle_time_ms: int = setting("ipc.client.connection.maxidletime", 10_000, at_least=100)
    """Half the time after which an idle connection may be closed. A caller whose user is not known, from another host,
    is closed after twice this time in which it neither finishes a call nor reads an answer, however few there are."""
    max_per_address: int = setting("yopp.ipc.server.max-connections-per-address", 64, at_least=1)
    """How many connections one address of another host, whose users are not known, has at once. Only an AMRMProxy with
    yopp.nodemanager.amrmproxy.loopback-only = false has such callers."""
    max_held_mb: int = setting("yopp.ipc.server.max-held-mb", 256, at_least=1)
    """How much memory, in MB, the unfinished calls and the unread answers of all connections of a daemon may take.
    Beyond it, the connection that holds most is closed."""
