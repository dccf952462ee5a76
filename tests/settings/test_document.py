"""The document's tables: every property that they name is declared once, with the default that they state."""

from __future__ import annotations

import pytest

from executor.settings import ExecutorSettings
from yarnopp_cli.settings.declarations import (
    PROPERTIES,
    PROPERTIES_OF,
    SETTINGS,
    NodeManagerSettings,
    ResourceManagerSettings,
)
from yarnopp_cli.settings.loading import load

from .conftest import Load

# (property, default as the document prints it), in the order of the document
TABLES = [
    ("yarn.resourcemanager.opportunistic-container-allocation.enabled", "false"),
    ("yarn.nodemanager.opportunistic-containers-max-queue-length", "0"),
    ("yarn.nodemanager.distributed-scheduling.enabled", "false"),
    ("yarn.resourcemanager.opportunistic-container-allocation.nodes-used", "10"),
    ("yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms", "1000"),
    ("yarn.resourcemanager.nm-container-queuing.queue-limit-stdev", "1.0f"),
    ("yarn.resourcemanager.nm-container-queuing.min-queue-length", "5"),
    ("yarn.resourcemanager.nm-container-queuing.max-queue-length", "15"),
    ("yarn.nodemanager.amrmproxy.address", "0.0.0.0:8049"),
    ("yarn.nodemanager.amrmproxy.client.thread-count", "3"),
]


@pytest.mark.parametrize(("name", "stated"), TABLES)
def test_a_property_has_the_default_that_the_document_states(load_with: Load, name: str, stated: str) -> None:
    by_default = load_with().value(name)
    as_written = load_with(defines=[f"{name}={stated}"])
    assert as_written.value(name) == by_default == PROPERTIES[name].default
    assert as_written.origin(name) == "-D"
    assert type(by_default) is PROPERTIES[name].type


def test_the_clients_redirection_is_declared_and_empty(load_with: Load) -> None:
    assert load_with().value("yarn.resourcemanager.scheduler.address") == ""


def test_the_percentage_of_the_sample_job_is_declared(load_with: Load) -> None:
    name = "mapreduce.job.num-opportunistic-maps-percent"
    assert load_with().value(name) == 0
    assert load_with(defines=[f"{name}=40"]).value(name) == 40


def test_no_name_is_declared_twice() -> None:
    declared = [item.name for properties in PROPERTIES_OF.values() for item in properties]
    assert len(declared) == len(set(declared)) == len(PROPERTIES) > 50


def test_no_name_is_a_dotted_prefix_of_another() -> None:
    # TOML could not hold both: one would have to be a value and a table.
    names = sorted(PROPERTIES)
    assert not [(a, b) for a in names for b in names if b.startswith(a + ".")]


@pytest.mark.parametrize("kind", SETTINGS)
def test_every_field_of_a_settings_class_is_a_property_with_a_document(kind: type) -> None:
    declared = PROPERTIES_OF[kind]
    assert len(declared) == len(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    for item in declared:
        assert item.doc.endswith((".", ")")) and item.type in (bool, int, float, str), item.name
        assert type(item.default) is item.type, item.name
        assert item.name.split(".")[0] in ("yarn", "mapreduce", "yopp", "ipc"), item.name


def test_the_quick_guide_is_the_local_site(load_with: Load) -> None:
    configuration = load((), (), environ={"HOME": "/nonexistent"}, state_dir="/s")
    assert configuration.settings(ResourceManagerSettings).opportunistic_enabled is True
    assert configuration.settings(ExecutorSettings).max_queue_length == 10
    assert configuration.settings(NodeManagerSettings).log_dirs == "/s/logs"
    assert configuration.warnings == ()
    # and the library's own defaults stay the document's
    assert load_with().settings(ResourceManagerSettings).opportunistic_enabled is False
    assert load_with().settings(ExecutorSettings).max_queue_length == 0
