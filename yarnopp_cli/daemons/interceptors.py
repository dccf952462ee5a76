"""Finds the classes that ``yarn.nodemanager.amrmproxy.interceptor-class.pipeline`` names, and checks their order.

YARN's own interceptors are known by their names, with or without a package before them; any other name is an import
path, "package.module.Class", found where Python finds modules (PYTHONPATH).
"""

from __future__ import annotations

import importlib

from ..errors import InvalidPropertyError
from ..nodemanager.proxy.distributed_scheduler import DistributedScheduler
from ..nodemanager.proxy.interceptors import (
    DefaultRequestInterceptor,
    InterceptorFactory,
    RequestInterceptor,
    ThrottleInterceptor,
)

PROPERTY = "yarn.nodemanager.amrmproxy.interceptor-class.pipeline"
_HADOOP = "org.apache.hadoop."
_KNOWN: dict[str, type[RequestInterceptor]] = {
    kind.__name__: kind for kind in (DefaultRequestInterceptor, DistributedScheduler, ThrottleInterceptor)
}

Chain = tuple[InterceptorFactory | type[DistributedScheduler], ...]


def load_chain(names: str, *, distributed: bool) -> Chain:
    """The classes that ``names`` lists; with ``distributed`` a DistributedScheduler among them, before the last.

    Raises InvalidPropertyError for a list that makes no chain.
    """
    listed = [name.strip() for name in names.split(",") if name.strip()]
    found = [_load(name) for name in listed]
    if not found or found[-1] is not DefaultRequestInterceptor:
        raise InvalidPropertyError(
            f"{PROPERTY} = {names!r} is not a chain of interceptors",
            because="the last interceptor has to be DefaultRequestInterceptor, which calls the ResourceManager",
        )
    if found.count(DefaultRequestInterceptor) > 1 or found.count(DistributedScheduler) > 1:
        raise InvalidPropertyError(
            f"{PROPERTY} = {names!r} names one interceptor twice",
            because="DefaultRequestInterceptor and DistributedScheduler may occur once in a chain",
        )
    if DistributedScheduler in found and not distributed:
        raise InvalidPropertyError(
            f"{PROPERTY} names DistributedScheduler",
            because="yarn.nodemanager.distributed-scheduling.enabled is false",
            hint="set it to true, on every node and the ResourceManager",
        )
    if distributed and DistributedScheduler not in found:
        found.insert(len(found) - 1, DistributedScheduler)
    return tuple(found)


def _load(name: str) -> type[RequestInterceptor]:
    module, _, last = name.rpartition(".")
    if (not module or name.startswith(_HADOOP)) and last in _KNOWN:
        return _KNOWN[last]
    try:
        found = getattr(importlib.import_module(module), last, None) if module else None
    except ImportError as error:
        raise _unknown(name, str(error)) from None
    if found is None:
        raise _unknown(name, f"there is no {last} in {module}" if module else "it is no import path")
    if not (isinstance(found, type) and issubclass(found, RequestInterceptor)):
        raise _unknown(
            name, "it is no subclass of yarnopp_cli.nodemanager.proxy.interceptors.RequestInterceptor"
        )
    return found


def _unknown(name: str, because: str) -> InvalidPropertyError:
    return InvalidPropertyError(
        f"{PROPERTY} names {name}, which is not an interceptor",
        because=because,
        hint=f"name one of {', '.join(_KNOWN)}, or package.module.Class",
    )
