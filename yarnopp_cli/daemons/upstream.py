"""A node's connections to its ResourceManager: performs the machine's commands, and posts the
resulting events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ..errors import ConnectionFailedError, YoppError
from ..nodemanager.events import (
    CallUpstream,
    CloseUpstream,
    ConnectUpstream,
    UpstreamAnswered,
    UpstreamCommand,
    UpstreamConnected,
    UpstreamEvent,
    UpstreamLost,
    UpstreamRefused,
)
from ..rpc.client import RpcClient

LOG = logging.getLogger(__name__)


class Upstreams:
    """The connections. ``path`` is the RM's socket; ``post`` takes the events. It never connects
    on its own."""

    def __init__(self, path: str, post: Callable[[UpstreamEvent], None]) -> None:
        self._path = path
        self._post = post
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._clients: dict[str, RpcClient] = {}
        self._told_why = ""

    def perform(self, command: UpstreamCommand) -> None:
        """Begin to perform a command."""
        match command:
            case ConnectUpstream(attempt_id):
                self._close(attempt_id)
                self._connecting[attempt_id] = asyncio.create_task(self._connect(attempt_id))
            case CallUpstream(attempt_id):
                if (client := self._clients.get(attempt_id)) is not None:
                    self._call(client, command)  # otherwise its loss has been posted, or soon will be
            case CloseUpstream(attempt_id):
                self._close(attempt_id)

    def close(self) -> None:
        """Close the connections once all output is sent; no more events are posted."""
        for attempt_id in {*self._connecting, *self._clients}:
            self._close(attempt_id)

    def _close(self, attempt_id: str) -> None:
        if (task := self._connecting.pop(attempt_id, None)) is not None:
            task.cancel()
        if (client := self._clients.pop(attempt_id, None)) is not None:
            client.close()

    async def _connect(self, attempt_id: str) -> None:
        client: RpcClient | None = None

        def ended(reason: str) -> None:
            if client is not None and self._clients.get(attempt_id) is client:
                del self._clients[attempt_id]
                self._lost(attempt_id, reason)

        try:
            client = await RpcClient.connect(self._path, ended)
        except ConnectionFailedError as error:
            self._lost(attempt_id, error.because)
            return
        if client.has_ended:  # before this task resumed
            self._lost(attempt_id, "the connection was closed")
            return
        self._clients[attempt_id] = client
        if not attempt_id:
            LOG.info("connected to the ResourceManager")
            self._told_why = ""
        self._post(UpstreamConnected(attempt_id))

    def _call(self, client: RpcClient, call: CallUpstream) -> None:
        def answered(response: Any, error: YoppError | None) -> None:
            if self._clients.get(call.attempt_id) is not client or isinstance(error, ConnectionFailedError):
                return  # a loss is posted once, for all calls
            if error is None:
                self._post(UpstreamAnswered(call, response))
            else:
                LOG.warning("the ResourceManager refused %s: %s", call.request.METHOD, error)
                self._post(UpstreamRefused(call, error))

        client.call(call.request, answered)

    def _lost(self, attempt_id: str, reason: str) -> None:
        if not attempt_id and reason != self._told_why:  # log it once, not at every attempt
            LOG.info("no connection to the ResourceManager: %s", reason)
            self._told_why = reason
        self._post(UpstreamLost(attempt_id, reason))
