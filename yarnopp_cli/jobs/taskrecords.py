"""What a master in a container writes down of its tasks, for the attempt that comes after it.

One line of JSON a task that has a container, has ended, or was tried, in a file beside the logs of its application's
containers: that is there for every node of the host, and goes with them. It decides nothing: ``masters/resuming.py``
makes tasks of it.
"""

from __future__ import annotations

import contextlib
import json
import os

from executor.light import replace
from executor.records import ContainerExitStatus
from executor.regular import NotRegularError, read_regular

from ..masters.resuming import stored_task
from ..masters.tasks import Task
from ..records.jobs import ENDED, TaskState
from ..records.state import StoredTask
from ..rpc.plain import MessageError, decode, encode

FILE_NAME = ".tasks"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_WRITTEN = ENDED | {TaskState.WAITING, TaskState.STARTING}


class TaskRecords:
    """The records in ``directory`` of the tasks of an application.

    While the disk is full, the job goes on without them: a later attempt repeats what they do not have.
    """

    def __init__(self, directory: str, application_id: str) -> None:
        self._path = os.path.join(directory, FILE_NAME)
        self._application_id = application_id
        self._fd = -1

    def read(self) -> tuple[StoredTask, ...]:
        """The last record of each task, of all attempts until now; a line that was not written whole is passed over,
        and so is a file that cannot be read.
        """
        found: dict[tuple[int, int], StoredTask] = {}
        try:
            lines = read_regular(self._path).split(b"\n")
        except (OSError, NotRegularError):
            return ()
        for line in lines:
            with contextlib.suppress(ValueError, MessageError):
                record = decode(StoredTask, json.loads(line))
                if record.application_id == self._application_id and record.state in _WRITTEN:
                    if (
                        record.state is TaskState.STARTING
                    ):  # containers end with the attempt that they were given to
                        record = replace(record, state=TaskState.WAITING)
                    found[record.phase_index, record.number] = record
        return tuple(found.values())

    def note(self, task: Task) -> None:
        """A task has changed."""
        untouched = task.state is TaskState.WAITING and task.exit_status == ContainerExitStatus.INVALID
        if task.state not in _WRITTEN or untouched:
            return
        record = stored_task(self._application_id, task)
        # The line begins with its end: an earlier one may have been cut off by a full disk.
        line = b"\n" + json.dumps(encode(record)).encode() + b"\n"
        with contextlib.suppress(OSError):
            if self._fd < 0:
                self._fd = os.open(self._path, _FLAGS, 0o600)
            os.write(self._fd, line)

    def close(self) -> None:
        """Write no more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
