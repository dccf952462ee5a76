"""The master of an application that is one command: it calls the RM on behalf of a program that cannot.

``python -m yarnopp_cli.daemons.commandmaster RM_ADDRESS COMMAND [VARIABLE...]`` runs in the master's container: it
registers, runs the command with the shell in the same container, without these variables, which are the master's own,
sends heartbeats to the RM, and reports the exit code. It runs the ``am-container-spec.commands`` submitted by REST,
unless their environment has YOPP_REGISTERS_ITSELF=true.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from executor.records import shell_code

from ..errors import EXIT_FAILURE, EXIT_USAGE, YoppError
from ..records.master_protocol import (
    ATTEMPT_VARIABLE,
    SCHEDULER_ADDRESS_VARIABLE,
    AllocateRequest,
    FinishApplicationMasterRequest,
    RegisterApplicationMasterRequest,
)
from ..records.reports import FinalApplicationStatus, JobSummary
from ..records.requests import Token
from ..rpc.blocking import Connection
from ..started import environment, use_utf8
from .applicationmaster import read_token

HEARTBEAT_SECONDS = 10.0
RETRY_SECONDS = 1.0
FINISH_SECONDS = 30.0


class CommandMaster:
    """The conversation with the RM about one command."""

    def __init__(self, address: str, attempt_id: str, token: Token) -> None:
        self._address = address
        self._attempt_id = attempt_id
        self._token = token
        self._connection: Connection | None = None
        self._response_id = 0

    def register(self) -> None:
        """Register with the RM. Raises YoppError."""
        self._connected().call(RegisterApplicationMasterRequest(self._attempt_id, self._token))

    def beat(self) -> bool:
        """Send a heartbeat; False if the application must end."""
        request = AllocateRequest(self._attempt_id, self._token, self._response_id)
        try:
            response = self._connected().call(request)
        except YoppError:
            self._drop()  # the RM may be restarting; the next heartbeat tries again
            return True
        self._response_id = response.response_id
        return not response.command

    def finish(self, code: int) -> None:
        """Report the exit code and unregister. If the RM does not accept that in time, say so on stderr."""
        succeeded = code == 0
        request = FinishApplicationMasterRequest(
            self._attempt_id,
            self._token,
            FinalApplicationStatus.SUCCEEDED if succeeded else FinalApplicationStatus.FAILED,
            "" if succeeded else f"the command ended with exit code {code}",
            summary=JobSummary(total=1, completed=1, failed=int(not succeeded), guaranteed=1, exit_code=code),
        )
        deadline = time.monotonic() + FINISH_SECONDS
        why = ""
        while time.monotonic() < deadline:
            try:
                if self._connected().call(request).is_unregistered:
                    return
                why = "it has not stored the end of the attempt yet"
            except YoppError as error:
                why = error.because or error.message
                self._drop()
            time.sleep(RETRY_SECONDS)  # there is no event to wait for: YARN's clients call again, too
        sys.stderr.write(
            f"error: exit code {code} was not reported to the ResourceManager within {FINISH_SECONDS:g} s\n"
            f"  because: {why}\n"
        )

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self._address)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def run(master: CommandMaster, command: str, own: Sequence[str]) -> int:
    """Run the command until it ends, without the variables ``own``; its exit code."""
    master.register()
    variables = {name: value for name, value in environment().items() if name not in own}
    child = subprocess.Popen(["/bin/sh", "-c", command], env=variables)

    def pass_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, pass_on)
    while True:
        try:
            code = shell_code(child.wait(HEARTBEAT_SECONDS))
            break
        except subprocess.TimeoutExpired:
            if not master.beat():
                child.terminate()
    master.finish(code)
    return code


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run the master; the command's exit code."""
    if len(argv) < 2 or ATTEMPT_VARIABLE not in environ:
        sys.stderr.write(
            "usage: python -m yarnopp_cli.daemons.commandmaster RM_ADDRESS COMMAND [VARIABLE...], "
            "in an AM's container\n"
        )
        return EXIT_USAGE
    try:
        address = environ.get(SCHEDULER_ADDRESS_VARIABLE, "") or argv[0]
        return run(CommandMaster(address, environ[ATTEMPT_VARIABLE], read_token()), argv[1], argv[2:])
    except YoppError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILURE


if __name__ == "__main__":
    use_utf8()
    sys.exit(main(sys.argv[1:], os.environ))
