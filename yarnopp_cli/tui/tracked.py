"""One container, looked at for as long as one likes: also after it has ended and left the pictures."""

from __future__ import annotations

from functools import partial

from ..errors import YoppError
from ..records.reports import ContainerReport
from ..views.containers import is_live
from ..views.picture import Picture
from .actions import ContainerActions
from .threads import in_thread


class TrackedContainer(ContainerActions):
    """A screen about one container; ``report`` is the latest that is known of it."""

    def __init__(self, report: ContainerReport) -> None:
        super().__init__()
        self.report = report
        self._asking = False

    def targets(self) -> list[ContainerReport]:
        """This one."""
        return [self.report]

    def identity(self) -> str:
        """Its id."""
        return self.report.container_id

    def track(self, picture: Picture) -> None:
        """Take what the picture knows; what has left it is asked for by itself, until it has ended."""
        found = picture.container(self.report.container_id)
        if found is not None:
            self.report = found
        elif is_live(self.report) and not self._asking and self.top.lost_since is None:
            self._asking = True
            self.run_worker(self._ask(), group="tracked")

    async def _ask(self) -> None:
        try:
            self.report = await in_thread(partial(self.top.source.container, self.report.container_id))
        except (YoppError, OSError):
            return  # the next picture asks again
        finally:
            self._asking = False
        self.update()
