"""A MapReduce job's configuration as its REST documents show it: what the job used, and what was set besides."""

from __future__ import annotations

from ..records.mapreduce import JobProperty
from ..settings.loading import Configuration

USED = ("mapreduce.", "yarn.app.mapreduce.", "yopp.pi.", "yopp.am.")
"""Beginnings of the names of properties that have a say in every MapReduce job."""
PROGRAM = "programmatically"
"""The source of what the job set itself, in Hadoop's word."""


def job_properties(configuration: Configuration, own: dict[str, str]) -> tuple[JobProperty, ...]:
    """In order of their names. ``own`` are those that the job set itself, whatever the files say."""
    from ..settings.registry import PROPERTIES
    from ..settings.values import to_text

    everything = configuration.non_default()
    for name in PROPERTIES:
        if name.startswith(USED):
            everything[name] = to_text(configuration.value(name))
    found = {name: JobProperty(name, value, configuration.origin(name)) for name, value in everything.items()}
    found |= {name: JobProperty(name, value, PROGRAM) for name, value in own.items()}
    return tuple(found[name] for name in sorted(found))
