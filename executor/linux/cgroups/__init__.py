"""Control groups: kernel files and how to read them (``files``), drivers with one interface (``base``) for
what a host offers (``v1``, ``v2``, ``none``), slots, weights, and the choice of a driver (``discovery``).

A driver is imported when it is first used: a command that only reads the host's limits needs ``files`` alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .base import CgroupDriver, CgroupReport
    from .discovery import discover
    from .none import NoCgroups
    from .v1 import V1Driver
    from .v2 import V2Driver

_MODULES = {
    "CgroupDriver": "base",
    "CgroupReport": "base",
    "NoCgroups": "none",
    "V1Driver": "v1",
    "V2Driver": "v2",
    "discover": "discovery",
}
__all__ = ["CgroupDriver", "CgroupReport", "NoCgroups", "V1Driver", "V2Driver", "discover"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
