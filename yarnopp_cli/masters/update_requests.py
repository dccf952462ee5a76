"""What a master may ask to have changed of a container it holds (YARN's ``AMRMClient.requestContainerUpdate``).

Pure; what makes no sense is refused here, before the RM is asked.
"""

from __future__ import annotations

from executor.records import ExecutionType, Resource

from ..errors import UsageError
from ..records.requests import Container, ContainerUpdateType, UpdateContainerRequest

_TYPES = {
    ContainerUpdateType.PROMOTE_EXECUTION_TYPE: (ExecutionType.GUARANTEED, ExecutionType.OPPORTUNISTIC),
    ContainerUpdateType.DEMOTE_EXECUTION_TYPE: (ExecutionType.OPPORTUNISTIC, ExecutionType.GUARANTEED),
}


def update_request(
    container: Container,
    update_type: ContainerUpdateType,
    *,
    execution_type: ExecutionType | None = None,
    capability: Resource | None = None,
) -> UpdateContainerRequest:
    """The request for an update of ``container``. Raises UsageError where target and original do not suit it.

    ``execution_type`` is the target of a promotion or demotion, None for the only one that it can have.
    """
    if update_type not in _TYPES:
        if capability is None:
            raise UsageError("a resize needs the new size", because=f"{update_type.value} names none")
        return UpdateContainerRequest(container.id, container.version, update_type, capability=capability)
    target, original = _TYPES[update_type]
    if execution_type not in (None, target) or container.execution_type is not original:
        raise UsageError(
            f"target should be {target.value} and original should be {original.value}",
            because=f"{container.id} is {container.execution_type.value}",
        )
    return UpdateContainerRequest(container.id, container.version, update_type, execution_type=target)
