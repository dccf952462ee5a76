"""What the tasks of masters that the RM hosts have in common: told once, and filled in for each task here. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from executor.records import ContainerSpec

from ..records.requests import ContainerLaunchContext
from ..records.tracker_protocol import LaunchTemplate, TaskToStart


class LaunchTemplates:
    """The templates of the applications that have, or had, tasks here."""

    def __init__(self) -> None:
        self._templates: dict[str, LaunchTemplate] = {}

    def add(self, templates: Iterable[LaunchTemplate]) -> None:
        """Keep these; one that is told again replaces itself."""
        for template in templates:
            self._templates[template.template_id] = template

    def forget(self, application_id: str) -> None:
        """An application has ended."""
        ended = [one for one in self._templates.values() if one.application_id == application_id]
        for template in ended:
            del self._templates[template.template_id]

    def grant(self, task: TaskToStart) -> tuple[ContainerLaunchContext, ContainerSpec]:
        """What a task's container is to run, and what the RM grants it. Without its template the former names no
        command, so that nothing starts.
        """
        template = self._templates.get(task.template_id)
        context = ContainerLaunchContext(())
        if template is not None:
            context = template.context.for_task(
                template.number_variable, task.number, task.arguments, task.duration_hint_ms, task.variables
            )
        grant = ContainerSpec(
            container_id=task.container_id,
            command=(),
            application_id=template.application_id if template else "",
            user=template.user if template else "",
            resource=task.resource,
            execution_type=task.execution_type,
            priority=task.priority,
            version=task.version,
            waiting_since_ms=task.waiting_since_ms,
            application_priority=task.application_priority,
        )
        return context, grant
