"""The I/O of an AMRMProxy, except the node's upstreams: the sockets that masters call, and its state file.

The machine is in ``nodemanager/proxy/amrmproxy.py``; this shell performs its commands and posts the results.
Its only decision is which of several NMs of one host has the TCP port: the first that binds it.
``load_chain`` imports the interceptors named by a property: YARN's own with or without a package before the
name, any other by its import path "package.module.Class" (on PYTHONPATH).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
from collections.abc import Callable
from typing import Final

from executor.regular import read_regular, write_whole

from ..errors import InvalidPropertyError, YoppError
from ..machine.calls import CallReceived, ConnectionLost, Reply, ReplyError
from ..nodemanager.events import StoredPipeline, StorePipelines
from ..nodemanager.proxy.amrmproxy import AMRMProxyService
from ..nodemanager.proxy.distributed_scheduler import DistributedScheduler
from ..nodemanager.proxy.interceptors import (
    DefaultRequestInterceptor,
    InterceptorFactory,
    RequestInterceptor,
    ThrottleInterceptor,
)
from ..rpc.crowd import Bounds
from ..rpc.methods import PROXY_METHODS
from ..rpc.plain import MessageError, decode, encode
from ..rpc.server import RpcServer
from ..settings.declarations import NodeManagerSettings, ResourceManagerSettings
from ..settings.rules import AMRM_PROXY

LOG = logging.getLogger(__name__)

NUMBERS_FROM: Final = 1 << 40
"""The first number of this server's calls and connections; the node's own server counts from 1."""
STATE_FILE: Final = "amrmproxy.json"

Post = Callable[[CallReceived | ConnectionLost], None]


class AMRMProxyShell:
    """The shell of one AMRMProxy. ``socket_path`` is its Unix socket; its state file is in the node's
    ``state_dir``.

    Raises YoppError for an invalid chain of interceptors.
    """

    def __init__(
        self,
        node_id: str,
        socket_path: str,
        state_dir: str,
        settings: NodeManagerSettings,
        scheduler_settings: ResourceManagerSettings,
        *,
        wall_offset: float,
        post: Post,
        bounds: Bounds,
    ) -> None:
        self._socket_path = socket_path
        self._state_file = os.path.join(state_dir, STATE_FILE)
        self._settings = settings
        chain = load_chain(settings.amrmproxy_pipeline, distributed=settings.distributed_scheduling_enabled)
        self._key, stored = self._read() if settings.recovery_enabled else (os.urandom(32), ())
        self.service = AMRMProxyService(
            node_id,
            f"unix:{socket_path}",
            settings,
            scheduler_settings,
            interceptors=chain,
            key=self._key,
            wall_offset=wall_offset,
            stored=stored,
        )
        self._server = RpcServer(PROXY_METHODS, post, bounds=bounds, numbers_from=NUMBERS_FROM)
        self.warning = ""

    async def listen(self) -> None:
        """Listen on the Unix socket, and on TCP unless another node of this host does. Raises YoppError."""
        await self._server.listen_unix(self._socket_path)
        address, loopback_only = self._settings.amrmproxy_address, self._settings.amrmproxy_loopback_only
        host, _, port = address.rpartition(":")
        if loopback_only and host.strip("[]") in ("0.0.0.0", "::"):
            address = f"127.0.0.1:{port}"
        try:
            bound = await self._server.listen_tcp(address, AMRM_PROXY, loopback_only=loopback_only)
        except YoppError as error:
            # Masters in containers use the Unix socket; only masters in clients need a port, and one per host
            # is enough.
            self.warning = f"no AMRMProxy port on this node: {error.brief}"
            LOG.warning("%s", self.warning)
        else:
            LOG.info("the AMRMProxy listens on %s", bound)

    def perform(self, command: Reply | ReplyError | StorePipelines) -> None:
        """Perform a command."""
        match command:
            case Reply() | ReplyError():
                self._server.perform(command)
            case StorePipelines():
                if self._settings.recovery_enabled:
                    self._write(command)

    async def close(self, *, forget: bool) -> None:
        """Close the server; with ``forget`` also remove the state file, so that the next proxy
        recovers nothing."""
        await self._server.close()
        if forget:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._state_file)

    # -- the state file --------------------------------------------------------------------------------

    def _read(self) -> tuple[bytes, tuple[StoredPipeline, ...]]:
        """The key and the pipelines stored by the previous process of this node; a new key if none
        can be read."""
        try:
            document = json.loads(read_regular(self._state_file))
            key = bytes.fromhex(document["key"])
            return key, tuple(decode(StoredPipeline, one) for one in document["pipelines"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, RecursionError, MessageError) as error:
            LOG.warning("%s cannot be read: %s", self._state_file, error)
        return os.urandom(32), ()

    def _write(self, command: StorePipelines) -> None:
        document = {"key": self._key.hex(), "pipelines": [encode(one) for one in command.pipelines]}
        try:
            write_whole(self._state_file, json.dumps(document).encode())
        except OSError as error:
            LOG.warning("cannot write %s: %s", self._state_file, error)


PROPERTY = "yarn.nodemanager.amrmproxy.interceptor-class.pipeline"
_HADOOP = "org.apache.hadoop."
_KNOWN: dict[str, type[RequestInterceptor]] = {
    kind.__name__: kind for kind in (DefaultRequestInterceptor, DistributedScheduler, ThrottleInterceptor)
}

Chain = tuple[InterceptorFactory | type[DistributedScheduler], ...]


def load_chain(names: str, *, distributed: bool) -> Chain:
    """The classes listed in ``names``; with ``distributed`` a DistributedScheduler is inserted
    before the last.

    Raises InvalidPropertyError if the list is not a valid chain.
    """
    listed = [name.strip() for name in names.split(",") if name.strip()]
    found = [_load(name) for name in listed]
    if not found or found[-1] is not DefaultRequestInterceptor:
        raise InvalidPropertyError(
            f"{PROPERTY} = {names!r} is not a chain of interceptors",
            because="the last interceptor has to be DefaultRequestInterceptor, which calls the ResourceManager",
        )
    if found.count(DefaultRequestInterceptor) > 1 or found.count(DistributedScheduler) > 1:
        raise InvalidPropertyError(
            f"{PROPERTY} = {names!r} names one interceptor twice",
            because="DefaultRequestInterceptor and DistributedScheduler may occur once in a chain",
        )
    if DistributedScheduler in found and not distributed:
        raise InvalidPropertyError(
            f"{PROPERTY} names DistributedScheduler",
            because="yarn.nodemanager.distributed-scheduling.enabled is false",
            hint="set it to true, on every node and the ResourceManager",
        )
    if distributed and DistributedScheduler not in found:
        found.insert(len(found) - 1, DistributedScheduler)
    return tuple(found)


def _load(name: str) -> type[RequestInterceptor]:
    module, _, last = name.rpartition(".")
    if (not module or name.startswith(_HADOOP)) and last in _KNOWN:
        return _KNOWN[last]
    try:
        found = getattr(importlib.import_module(module), last, None) if module else None
    except ImportError as error:
        raise _unknown(name, str(error)) from None
    if found is None:
        raise _unknown(name, f"there is no {last} in {module}" if module else "it is not an import path")
    if not (isinstance(found, type) and issubclass(found, RequestInterceptor)):
        raise _unknown(
            name, "it is not a subclass of yarnopp_cli.nodemanager.proxy.interceptors.RequestInterceptor"
        )
    return found


def _unknown(name: str, because: str) -> InvalidPropertyError:
    return InvalidPropertyError(
        f"{PROPERTY} names {name}, which is not an interceptor",
        because=because,
        hint=f"name one of {', '.join(_KNOWN)}, or package.module.Class",
    )
