"""Where a command works: its configuration, its run directory, and a client for the cluster that is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ...cluster.rundir import RunDir

if TYPE_CHECKING:
    from ...client.local import LocalClient
    from ...settings.loading import Configuration
    from .output import Printer


@dataclass(frozen=True)
class Context:
    """One command's surroundings. Making one reads nothing; ``configuration`` is loaded when first asked for."""

    run_dir: RunDir
    conf: tuple[str, ...]
    define: tuple[str, ...]
    looks: bool = False

    @classmethod
    def of(
        cls,
        *,
        conf: Sequence[str] | None = None,
        define: Sequence[str] | None = None,
        run_dir: str | None = None,
    ) -> Context:
        """From the values of ``--conf``, ``-D`` and ``--run-dir``. Raises YoppError where no run directory
        can be.
        """
        home = os.path.expanduser("~")
        resolved = RunDir.resolve(run_dir, os.environ, os.getuid(), "" if home == "~" else home)
        return cls(resolved, tuple(conf or ()), tuple(define or ()))

    @classmethod
    def looking(
        cls,
        *,
        conf: Sequence[str] | None = None,
        define: Sequence[str] | None = None,
        run_dir: str | None = None,
    ) -> Context:
        """As ``of``, for commands that need no property: what is named (by YOPP_CONF too) is still checked, but
        nothing else is read.
        """
        context = replace(cls.of(conf=conf, define=define, run_dir=run_dir), looks=True)
        if context.names_files or define:
            _ = context.configuration
        return context

    @property
    def names_files(self) -> bool:
        """Whether the command line or YOPP_CONF names files."""
        return bool(self.conf or os.environ.get("YOPP_CONF"))

    def warn_of_slips(self, printer: Printer) -> None:
        """Say which names in the files that were named are nearly those of properties. Others say it by themselves,
        with all other warnings."""
        if self.looks and self.names_files and not printer.quiet:
            from ...settings.loading import misspelt

            for line in misspelt(self.configuration.warnings):
                printer.warn(line)

    @cached_property
    def configuration(self) -> Configuration:
        """The configuration of this command line. Raises ConfigurationError."""
        from ...settings.loading import load

        return load(self.conf, self.define, environ=os.environ, state_dir=self.run_dir.state_dir)

    def client(self, printer: Printer | None = None) -> LocalClient:
        """Connected to the ResourceManager. Raises ConnectionFailedError (exit 69, hint ``yopp up``).

        With a ``printer`` told to be verbose, each call is told of on stderr; with ``-vv``, what went each way.
        """
        from ...client.local import LocalClient

        self.run_dir.check()
        if printer is not None:
            self.warn_of_slips(printer)
        if printer is None or not printer.verbose:
            return LocalClient(self.run_dir.rm_socket)
        printer.note(f"run directory {self.run_dir.path}")
        return LocalClient(self.run_dir.rm_socket, trace=printer.note, trace_messages=printer.verbose > 1)
