"""The kept histories of ended applications, read by commands after the application or its cluster has ended."""

from __future__ import annotations

import json

from executor.plain import decode
from executor.regular import read_regular

from ..errors import ApplicationNotFoundError, reason_of
from ..records.history import ApplicationHistory
from .rundir import RunDir


def read_history(run_dir: RunDir, application_id: str) -> ApplicationHistory:
    """The kept history of an application. Raises ApplicationNotFoundError."""
    path = run_dir.history_file(application_id)
    try:
        return decode(ApplicationHistory, json.loads(read_regular(path)))
    except (OSError, ValueError, RecursionError) as error:
        raise ApplicationNotFoundError(
            f"no history of application {application_id}",
            because=f"{path}: {reason_of(error)}",
            hint="`yopp app list -a` lists the known ones",
            sought=application_id,
        ) from None
