"""Reads and checks the query parameters of YARN's REST API."""

from __future__ import annotations

import datetime
import enum
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from aiohttp import web

from ..records.job_protocol import GetApplicationsRequest
from ..records.reports import (
    ApplicationReport,
    FinalApplicationStatus,
    NodeReport,
    NodeState,
    YarnApplicationState,
)
from .http import bad_request, not_found

T = TypeVar("T")
EnumT = TypeVar("EnumT", bound=enum.StrEnum)
MAX_TIME = 2**63 - 1
TEXT: dict[str, Any] = {"type": "string"}
MAYBE: dict[str, Any] = {"type": "string", "default": ""}
WHOLE: dict[str, Any] = {"type": "integer", "minimum": 0, "maximum": 10**18}
TEXTS: dict[str, Any] = {"type": "array", "items": TEXT}
NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}


def one_of(words: Iterable[str]) -> dict[str, Any]:
    """The schema of a parameter that is one of these words."""
    return {"type": "string", "enum": [str(word) for word in words]}


def some_of(words: Iterable[str]) -> dict[str, Any]:
    """The schema of a comma list of these words."""
    return {"type": "array", "items": one_of(words)}


GROUPED = {"groupBy": one_of(["diagnostic"])}
SPANS = {f"{name}Time{end}": WHOLE for name in ("started", "finished") for end in ("Begin", "End")}
UNLISTED = frozenset({NodeState.UNHEALTHY, NodeState.LOST, NodeState.SHUTDOWN, NodeState.DECOMMISSIONED})
"""The states whose nodes YARN lists only on request."""


def names(request: web.Request, *parameters: str) -> tuple[str, ...]:
    """The words of comma lists."""
    text = ",".join(value for name in parameters for value in request.query.getall(name, []))
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def words(request: web.Request, kind: type[EnumT], what: str, *parameters: str) -> tuple[EnumT, ...]:
    """The members of ``kind`` that comma lists name, case-insensitively. Raises 400 in YARN's words."""
    found = []
    for word in names(request, *parameters):
        try:
            found.append(kind(word.upper()))
        except ValueError:
            known = ",".join(one.value for one in kind)
            raise bad_request(f"Invalid {what} {word[:100]} specified. It should be one of {known}") from None
    return tuple(dict.fromkeys(found))


def chosen_nodes(request: web.Request, nodes: Sequence[NodeReport], *parameters: str) -> list[NodeReport]:
    """The nodes in the states that these parameters name; without the parameters, those not in UNLISTED."""
    wanted = words(request, NodeState, "node state", *parameters)
    if any(name in request.query for name in parameters):
        return [one for one in nodes if not wanted or one.state in wanted]
    return [one for one in nodes if one.state not in UNLISTED]


def nodes_in(word: str, nodes: Sequence[NodeReport]) -> list[NodeReport]:
    """The nodes of a YARN page such as ``/cluster/nodes/lost``: in the state ``word``, or ``all``. Raises
    404.
    """
    if word == "all":
        return list(nodes)
    if word.upper() not in NodeState.__members__:
        raise not_found(f"no node state {word[:40]}")
    return [one for one in nodes if one.state is NodeState[word.upper()]]


def whole(name: str, text: str) -> int:
    """A parameter's value as a whole number. Raises 400 if it is not one, or negative."""
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise bad_request(f"{name} value must be a whole number that is not negative: {text[:40]}")
    return int(text)


def number(request: web.Request, name: str) -> int | None:
    """A number that is not negative; None if the parameter is missing. Raises 400."""
    text = request.query.get(name, "")
    return whole(name, text) if text else None


def numbers(request: web.Request, name: str) -> frozenset[int]:
    """The whole numbers of a comma list. Raises 400."""
    found = set()
    for word in names(request, name):
        if not re.fullmatch(r"-?[0-9]{1,18}", word):
            raise bad_request(f"{name} must be whole numbers: {word[:40]}")
        found.add(int(word))
    return frozenset(found)


def latest(request: web.Request, rows: list[T]) -> list[T]:
    """The last ``limit`` rows; all rows without a limit. Raises 400."""
    limit = number(request, "limit")
    if limit == 0:
        raise bad_request("limit value must be greater then 0")
    return rows if limit is None else rows[max(0, len(rows) - limit) :]


def iso_ms(text: str) -> int:
    """A time in ISO 8601 with its zone, in epoch milliseconds; 0 for UNLIMITED. Raises 400."""
    if text.upper() == "UNLIMITED":
        return 0
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise bad_request(
            f"invalid expiry time: {text[:60]}", because="it looks like 2026-11-22T05:26:35.987+0000"
        )
    return round(moment.timestamp() * 1000)


def span(request: web.Request, name: str) -> tuple[int, int]:
    """The times between ``nameBegin`` and ``nameEnd``, epoch milliseconds. Raises 400."""
    begin, end = number(request, f"{name}Begin"), number(request, f"{name}End")
    first, last = begin or 0, MAX_TIME if end is None else end
    if first > last:
        raise bad_request(f"{name}End must be greater than {name}Begin")
    return first, last


def grouped_by(request: web.Request) -> bool:
    """Whether activities are to be grouped by their diagnostics, YARN's only way of grouping. Raises 400."""
    word = request.query.get("groupBy", "")
    if word and word.upper() != "DIAGNOSTIC":
        raise bad_request(f"Got invalid groupBy: {word[:100]}, valid groupBy types: [DIAGNOSTIC]")
    return bool(word)


FILTERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("states", "state"), some_of(YarnApplicationState)),
    "finalStatus": some_of(FinalApplicationStatus),
    **dict.fromkeys(("applicationTypes", "applicationTags"), TEXTS),
    **dict.fromkeys(("queue", "user", "name"), TEXT),
    **SPANS,
    "limit": WHOLE,
}
"""The parameters of ``GET /ws/v1/cluster/apps``."""


def application_filter(
    request: web.Request,
) -> tuple[GetApplicationsRequest, Callable[[ApplicationReport], bool]]:
    """The filter of ``GET /ws/v1/cluster/apps``: the request for the RM, and a predicate for the filters that the RM
    does not have. Raises 400 for wrong parameters.
    """
    states = words(request, YarnApplicationState, "application-state", "states", "state")
    finals = words(request, FinalApplicationStatus, "final application status", "finalStatus")
    types = {one.lower() for one in names(request, "applicationTypes")}
    tags = {one.lower() for one in names(request, "applicationTags")}
    started, finished = span(request, "startedTime"), span(request, "finishedTime")
    queue, user, name = (request.query.get(word, "") for word in ("queue", "user", "name"))

    def passes(report: ApplicationReport) -> bool:
        return (
            (not finals or report.final_status is finals[0])
            and (not types or report.application_type.lower() in types)
            and (not tags or bool(tags & {tag.lower() for tag in report.tags}))
            and started[0] <= (report.submitted_at_ms or report.started_at_ms) <= started[1]
            and finished[0] <= report.finished_at_ms <= finished[1]
        )

    return GetApplicationsRequest(states=states, queue=queue, user=user, name=name), passes


def target_state(body: Mapping[str, Any], known: Container[str]) -> str:
    """The target state in a body. Raises 400 for an unknown one."""
    wanted = body.get("state")
    if not isinstance(wanted, str) or wanted not in known:
        raise bad_request(f"Invalid target state: {str(wanted)[:100]}")
    return wanted


def is_to_be_killed(state: str, wanted: str) -> bool:
    """Whether an object in ``state`` is to be killed; False if it is in the wanted state already. Raises 400
    for any other target: only KILLED is allowed.
    """
    if wanted not in (state, "KILLED"):
        raise bad_request("Only 'KILLED' is allowed as a target state.")
    return wanted != state
