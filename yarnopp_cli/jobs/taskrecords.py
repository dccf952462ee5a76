"""The records of its tasks that a master in a container writes for the next attempt.

One line of JSON for each task that has a container, has ended, or was tried, in a file beside the logs of the
application's containers, which every node of the host can read, and which is removed with the logs. This module
decides nothing: ``masters/resuming.py`` makes tasks from the records.
"""

from __future__ import annotations

import contextlib
import json
import os

from executor.light import replace
from executor.records import ContainerExitStatus
from executor.regular import NotRegularError, open_regular, read_regular

from ..masters.resuming import WRITTEN, stored_task
from ..masters.tasks import Task
from ..records.jobs import TaskState
from ..records.state import StoredTask
from ..rpc.plain import MessageError, decode, encode

FILE_NAME = ".tasks"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class TaskRecords:
    """The records in ``directory`` of the tasks of an application.

    While the disk is full, the job goes on without them: a later attempt repeats the tasks that are not
    recorded.
    """

    def __init__(self, directory: str, application_id: str) -> None:
        self._path = os.path.join(directory, FILE_NAME)
        self._application_id = application_id
        self._fd = -1

    def read(self) -> tuple[StoredTask, ...]:
        """The last record of each task with each of its containers, from all attempts until now, in the order in
        which they were written; an incomplete line is skipped, and so is a file that cannot be read.
        """
        found: dict[tuple[int, int, str], StoredTask] = {}
        try:
            lines = read_regular(self._path).split(b"\n")
        except (OSError, NotRegularError):
            return ()
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError, MessageError):
                record = decode(StoredTask, json.loads(line))
                if record.application_id == self._application_id and record.state in WRITTEN:
                    if record.state is TaskState.STARTING:  # containers end with the attempt that owns them
                        record = replace(record, state=TaskState.WAITING)
                    key = record.phase_index, record.number, record.container_id
                    found.pop(key, None)
                    found[key] = record
        return tuple(found.values())

    def note(self, task: Task) -> None:
        """Record a changed task."""
        untouched = task.state is TaskState.WAITING and task.exit_status == ContainerExitStatus.INVALID
        if task.state not in WRITTEN or untouched:
            return
        record = stored_task(self._application_id, task)
        # The line begins with a newline, since a full disk may have cut off the line before it.
        line = b"\n" + json.dumps(encode(record)).encode() + b"\n"
        with contextlib.suppress(OSError):
            if self._fd < 0:
                self._fd = open_regular(self._path, _FLAGS)
            os.write(self._fd, line)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
