"""A daemon's web server: when it listens, and at which address. An on-demand cluster opens no TCP port.

Decisions: web-when-asked.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from executor.linux.owners.accounts import user_id
from executor.settings import ExecutorSettings

from ..cluster.resttoken import keep_token, links, read_token
from ..cluster.rundir import PORT
from ..errors import InvalidPropertyError, YoppError
from ..machine.calls import CallReceived, PagesServed
from ..settings.declarations import WebSettings
from ..settings.loading import Configuration
from ..web.calls import LocalCalls
from ..web.listening import WebListener, listen
from .process import DaemonProcess

LOG = logging.getLogger(__name__)


def _runs_as_others(configuration: Configuration) -> bool:
    """Return True if the containers of other users run as another user than this one; otherwise
    raise YoppError."""
    executor = configuration.settings(ExecutorSettings)
    name = "yopp.webapp.submitters"
    if os.geteuid() != 0:
        raise InvalidPropertyError(
            f"{name} = all is refused",
            because="this cluster is not root's, so the containers of others would run as you",
            hint=f"-D{name}=owner, or let root run the cluster",
        )
    if executor.limit_users and user_id(executor.local_user) in (0, None):
        raise InvalidPropertyError(
            f"{name} = all is refused",
            because="with nonsecure-mode.limit-users the containers of others would run as "
            f"{executor.local_user}, who is root or not a user of this host",
            hint="set yarn.nodemanager.linux-container-executor.nonsecure-mode.limit-users to false",
        )
    return True


class DaemonWeb:
    """The web server. ``daemon`` is "resourcemanager" or "nodemanager"; ``offset`` is added to its port.

    ``post`` takes the calls of the pages to the machine, and the address of the pages.
    """

    def __init__(
        self,
        process: DaemonProcess,
        configuration: Configuration,
        daemon: str,
        post: Callable[[CallReceived | PagesServed], None],
        *,
        offset: int = 0,
    ) -> None:
        self.calls = LocalCalls(post)
        self._post = post
        self._process = process
        self._settings = configuration.settings(WebSettings)
        self._others_submit = self._settings.submitters == "all" and _runs_as_others(configuration)
        self._property = f"yarn.{daemon}.webapp.address"
        self._module = f"yarnopp_cli.web.{daemon}"
        self._offset = offset
        # A port that was not configured by its number is replaced if another program uses it.
        self._gives_way = configuration.origin(self._property) == "default" or offset > 0
        addresses = {
            "resourcemanager": self._settings.resourcemanager_address,
            "nodemanager": self._settings.nodemanager_address,
        }
        self._configured = addresses[daemon]
        self.listener: WebListener | None = None
        self.may_open = bool(self._configured)
        """Whether a port is configured and has not been bound yet."""

    def bind(self) -> WebListener | None:
        """Bind the port; None if none is configured, or it is already bound. Raises YoppError."""
        if not self.may_open:
            return None
        self.may_open = False
        run_dir, name = self._process.run_dir, self._process.name
        self.listener = listen(
            self._configured,
            self._property,
            loopback_only=self._settings.loopback_only,
            offset=self._offset,
            fallback=self._gives_way,
            earlier=run_dir.web_port(name),
        )
        self.listener.for_owner_only = self._settings.readers == "owner"
        self.listener.others_submit = self._others_submit
        keep_token(run_dir)
        self.listener.token, self.listener.links = partial(read_token, run_dir), partial(links, run_dir)
        run_dir.write(f"{name}.http", self.listener.address + "\n")
        run_dir.write(f"{name}{PORT}", f"{self.listener.port}\n")
        return self.listener

    def serve(self, *arguments: Any) -> None:
        """Begin to serve callers, by ``module.serve(socket, listener, calls, *arguments)``."""
        if (listener := self.listener) is not None:
            if listener.warning:
                LOG.warning("%s", listener.warning)
            listener.serve(self._module, (listener, self.calls, *arguments))

    def open(self, *arguments: Any) -> None:
        """Bind the port, serve callers, and post the address to the machine. Raises YoppError."""
        if (listener := self.bind()) is not None:
            self._post(PagesServed(listener.address, listener.warning))
            self.serve(*arguments)

    def open_late(self, *arguments: Any) -> None:
        """Open the pages of a cluster that has been made to stay; if that fails, log and post the reason."""
        try:
            self.open(*arguments)
        except YoppError as error:
            LOG.warning("no web server: %s", error)
            self._post(PagesServed("", f"no web server: {error.message}, because {error.because}"))

    async def close(self) -> None:
        """Stop listening, and fail the open calls."""
        self.calls.close()
        if self.listener is not None:
            await self.listener.close()
            run_dir, name = self._process.run_dir, self._process.name
            with contextlib.suppress(OSError, YoppError):  # the file of another cluster is kept
                if run_dir.http_address(name) == self.listener.address:
                    os.unlink(run_dir.http_file(name))
