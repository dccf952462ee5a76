"""The query parameters of YARN's REST API, read and checked."""

from __future__ import annotations

import datetime
import enum
import re
from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from ..records.client_protocol import GetApplicationsRequest
from ..records.reports import ApplicationReport, FinalApplicationStatus, NodeState, YarnApplicationState
from .http import bad_request

EnumT = TypeVar("EnumT", bound=enum.StrEnum)
MAX_TIME = 2**63 - 1
UNLISTED = frozenset({NodeState.UNHEALTHY, NodeState.LOST, NodeState.SHUTDOWN, NodeState.DECOMMISSIONED})
"""Nodes that YARN lists only where their states are asked for."""


def words(request: web.Request, name: str, kind: type[EnumT], what: str) -> tuple[EnumT, ...]:
    """The members that a comma list names, whatever their case. Raises 400 in YARN's words."""
    found = []
    for word in ",".join(request.query.getall(name, [])).split(","):
        if not word.strip():
            continue
        try:
            found.append(kind(word.strip().upper()))
        except ValueError:
            known = ",".join(one.value for one in kind)
            raise bad_request(
                f"Invalid {what} {word.strip()[:100]} specified. It should be one of {known}"
            ) from None
    return tuple(dict.fromkeys(found))


def number(request: web.Request, name: str) -> int | None:
    """A number that is not negative, None where it is not given. Raises 400."""
    text = request.query.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        raise bad_request(f"{name} value must be a whole number that is not negative: {text[:40]}")
    return int(text)


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


def names(request: web.Request, *parameters: str) -> tuple[str, ...]:
    """The words of comma lists."""
    text = ",".join(value for name in parameters for value in request.query.getall(name, []))
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def numbers(request: web.Request, name: str) -> frozenset[int]:
    """The whole numbers of a comma list. Raises 400."""
    found = set()
    for word in names(request, name):
        if not re.fullmatch(r"-?[0-9]{1,18}", word):
            raise bad_request(f"{name} must be whole numbers: {word[:40]}")
        found.add(int(word))
    return frozenset(found)


def grouped_by(request: web.Request) -> bool:
    """Whether activities are to be grouped: YARN knows one way. Raises 400."""
    word = request.query.get("groupBy", "")
    if word and word.upper() != "DIAGNOSTIC":
        raise bad_request(f"Got invalid groupBy: {word[:100]}, valid groupBy types: [DIAGNOSTIC]")
    return bool(word)


@dataclass(frozen=True, slots=True)
class ApplicationFilter:
    """Which applications ``GET /ws/v1/cluster/apps`` shows: what the RM filters, and what is left to filter."""

    request: GetApplicationsRequest
    final_status: FinalApplicationStatus | None
    types: frozenset[str]
    tags: frozenset[str]
    started: tuple[int, int]
    finished: tuple[int, int]
    limit: int | None

    @classmethod
    def of(cls, request: web.Request) -> ApplicationFilter:
        """Raises 400 for what makes no sense."""
        states = words(request, "states", YarnApplicationState, "application-state")
        states += words(request, "state", YarnApplicationState, "application-state")
        finals = words(request, "finalStatus", FinalApplicationStatus, "final application status")
        limit = number(request, "limit")
        if limit == 0:
            raise bad_request("limit value must be greater then 0")
        return cls(
            GetApplicationsRequest(
                states=states,
                queue=request.query.get("queue", ""),
                user=request.query.get("user", ""),
                name=request.query.get("name", ""),
            ),
            finals[0] if finals else None,
            frozenset(one.lower() for one in names(request, "applicationTypes")),
            frozenset(one.lower() for one in names(request, "applicationTags")),
            span(request, "startedTime"),
            span(request, "finishedTime"),
            limit,
        )

    def passes(self, report: ApplicationReport) -> bool:
        """Whether this one is wanted."""
        started = report.submitted_at_ms or report.started_at_ms
        return (
            (self.final_status is None or report.final_status is self.final_status)
            and (not self.types or report.application_type.lower() in self.types)
            and (not self.tags or bool(self.tags & {tag.lower() for tag in report.tags}))
            and self.started[0] <= started <= self.started[1]
            and self.finished[0] <= report.finished_at_ms <= self.finished[1]
        )
