"""What all tests of this folder share."""

from __future__ import annotations

import pytest

from executor.linux.slots.mounts import MountChanges


@pytest.fixture(autouse=True)
def _mounts_of_other_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots stay, though tests beside these mount something at the same time."""
    if "is_mounted" not in request.node.name:
        monkeypatch.setattr(MountChanges, "happened", lambda changes: False)
