"""The common parts of the tasks of hosted masters: sent once to a node, and filled in there for each task. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from executor.light import made_of
from executor.records import ContainerSpec

from ..records.requests import ContainerLaunchContext
from ..records.tracker_protocol import LaunchTemplate, TaskToStart


class LaunchTemplates:
    """The templates of the applications that have, or had, tasks here."""

    def __init__(self) -> None:
        self._templates: dict[str, LaunchTemplate] = {}

    def add(self, templates: Iterable[LaunchTemplate]) -> None:
        """Keep these templates; a repeated one replaces the earlier."""
        for template in templates:
            self._templates[template.template_id] = template

    def forget(self, application_id: str) -> None:
        """An application has ended."""
        ended = [one for one in self._templates.values() if one.application_id == application_id]
        for template in ended:
            del self._templates[template.template_id]

    def grant(self, task: TaskToStart) -> tuple[ContainerLaunchContext, ContainerSpec]:
        """The launch context of a task's container, and the grant of the RM. If its template is missing, the context
        names no command, so that no process starts.
        """
        template = self._templates.get(task.template_id)
        context = ContainerLaunchContext(())
        if template is not None:
            context = template.context.for_task(
                template.number_variable, task.number, task.arguments, task.duration_hint_ms, task.variables
            )
        # The context has the expected duration.
        return context, made_of(ContainerSpec, template, task, command=(), duration_hint_ms=0)
