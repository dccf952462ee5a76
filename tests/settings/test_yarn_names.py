"""Every property that YARN's reference names for these parts is declared, or refused with its reason."""

from __future__ import annotations

import pytest

from yarnopp_cli.errors import UnknownPropertyError
from yarnopp_cli.manual.pages import site_page
from yarnopp_cli.manual.roff import to_man
from yarnopp_cli.settings.declarations import FALLBACKS, PROPERTIES
from yarnopp_cli.settings.refused import REFUSED

from .conftest import Load, Problems, Write

OPPORTUNISTIC = """
yarn.resourcemanager.opportunistic-container-allocation.enabled
yarn.resourcemanager.opportunistic-container-allocation.nodes-used
yarn.resourcemanager.opportunistic.max.container-allocation.per.am.heartbeat
yarn.resourcemanager.nm-container-queuing.sorting-nodes-interval-ms
yarn.resourcemanager.nm-container-queuing.load-comparator
yarn.resourcemanager.nm-container-queuing.queue-limit-stdev
yarn.resourcemanager.nm-container-queuing.min-queue-length
yarn.resourcemanager.nm-container-queuing.max-queue-length
yarn.resourcemanager.nm-container-queuing.min-queue-wait-time-ms
yarn.resourcemanager.nm-container-queuing.max-queue-wait-time-ms
yarn.nodemanager.opportunistic-containers-max-queue-length
yarn.nodemanager.opportunistic-containers-queue-policy
yarn.nodemanager.opportunistic-containers-use-pause-for-preemption
yarn.resourcemanager.auto-update.containers
mapreduce.job.num-opportunistic-maps-percent
"""
DISTRIBUTED = """
yarn.nodemanager.distributed-scheduling.enabled
yarn.nodemanager.amrmproxy.enabled
yarn.nodemanager.amrmproxy.address
yarn.nodemanager.amrmproxy.client.thread-count
yarn.nodemanager.amrmproxy.interceptor-class.pipeline
yarn.nodemanager.amrmproxy.ha.enable
yarn.nodemanager.amrmproxy.wait.uam-register.done
yarn.resourcemanager.am-rm-tokens.master-key-rolling-interval-secs
yarn.resourcemanager.rm.container-allocation.expiry-interval-ms
"""
LIVENESS = """
yarn.resourcemanager.nodemanagers.heartbeat-interval-ms
yarn.resourcemanager.nodemanagers.heartbeat-interval-scaling-enable
yarn.resourcemanager.nodemanagers.heartbeat-interval-min-ms
yarn.resourcemanager.nodemanagers.heartbeat-interval-max-ms
yarn.resourcemanager.nodemanagers.heartbeat-interval-speedup-factor
yarn.resourcemanager.nodemanagers.heartbeat-interval-slowdown-factor
yarn.nm.liveness-monitor.expiry-interval-ms
yarn.am.liveness-monitor.expiry-interval-ms
yarn.resourcemanager.am.max-attempts
yarn.scheduler.minimum-allocation-mb
yarn.scheduler.minimum-allocation-vcores
yarn.scheduler.maximum-allocation-mb
yarn.scheduler.maximum-allocation-vcores
yarn.resourcemanager.address
yarn.resourcemanager.scheduler.address
yarn.resourcemanager.resource-tracker.address
yarn.resourcemanager.admin.address
yarn.nodemanager.address
yarn.nodemanager.localizer.address
yarn.resourcemanager.webapp.address
yarn.nodemanager.webapp.address
"""
ENFORCEMENT = """
yarn.nodemanager.resource.memory-mb
yarn.nodemanager.resource.cpu-vcores
yarn.nodemanager.resource.detect-hardware-capabilities
yarn.nodemanager.resource.count-logical-processors-as-cores
yarn.nodemanager.resource.pcores-vcores-multiplier
yarn.nodemanager.resource.percentage-physical-cpu-limit
yarn.nodemanager.resource.system-reserved-memory-mb
yarn.nodemanager.resource.memory.enabled
yarn.nodemanager.resource.memory.enforced
yarn.nodemanager.resource.memory.cgroups.swappiness
yarn.nodemanager.resource.memory.cgroups.soft-limit-percentage
yarn.nodemanager.pmem-check-enabled
yarn.nodemanager.vmem-check-enabled
yarn.nodemanager.vmem-pmem-ratio
yarn.nodemanager.container-monitor.enabled
yarn.nodemanager.container-monitor.interval-ms
yarn.nodemanager.container-log-monitor.enable
yarn.nodemanager.container-log-monitor.interval-ms
yarn.nodemanager.container-log-monitor.dir-size-limit-bytes
yarn.nodemanager.container-log-monitor.total-size-limit-bytes
yarn.nodemanager.resource-monitor.interval-ms
yarn.nodemanager.elastic-memory-control.enabled
yarn.nodemanager.overallocation.general-utilization-threshold
yarn.nodemanager.overallocation.memory-utilization-threshold
yarn.nodemanager.overallocation.cpu-utilization-threshold
yarn.nodemanager.overallocation.preemption-threshold
yarn.nodemanager.elastic-memory-control.timeout-sec
yarn.nodemanager.elastic-memory-control.oom-handler
yarn.nodemanager.linux-container-executor.cgroups.hierarchy
yarn.nodemanager.linux-container-executor.cgroups.mount
yarn.nodemanager.linux-container-executor.cgroups.strict-resource-usage
yarn.nodemanager.linux-container-executor.cgroups.delete-timeout-ms
yarn.nodemanager.linux-container-executor.cgroups.delete-delay-ms
yarn.nodemanager.sleep-delay-before-sigkill.ms
yarn.nodemanager.process-kill-wait.ms
yarn.nodemanager.container-diagnostics-maximum-size
yarn.nodemanager.container-retry-minimum-interval-ms
yarn.nodemanager.recovery.enabled
yarn.nodemanager.recovery.supervised
yarn.nodemanager.log.retain-seconds
yarn.nodemanager.log-dirs
yarn.nodemanager.local-dirs
"""
NAMES = (OPPORTUNISTIC + DISTRIBUTED + LIVENESS + ENFORCEMENT).split()


@pytest.mark.parametrize("name", NAMES)
def test_each_is_declared_or_refused_and_never_both(name: str) -> None:
    assert (name in PROPERTIES) != (name in REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_one_says_why_and_what_serves_instead(name: str, problems_of: Problems) -> None:
    assert name not in PROPERTIES
    [error] = problems_of(defines=[f"{name}=17"])
    assert isinstance(error, UnknownPropertyError)
    assert error.message == f"-D: {name} is not supported"
    assert (error.because, error.hint) == (REFUSED[name].because, REFUSED[name].instead)
    [error] = problems_of(defines=["a=b"])
    assert "no property has that name" in error.because, "and one that nobody knows is still another thing"


def test_in_toml_it_is_an_error_with_its_line_and_in_hadoops_xml_a_warning(
    write: Write, load_with: Load, problems_of: Problems
) -> None:
    name = "yarn.nodemanager.localizer.address"
    toml = write("one.toml", f'\n"{name}" = "0.0.0.0:8040"\n')
    [error] = problems_of([toml])
    assert error.message.startswith(f"{toml}:2: ") or name in error.message
    xml = write(
        "yarn-site.xml",
        f"<configuration><property><name>{name}</name><value>0.0.0.0:8040</value></property></configuration>",
    )
    [warning] = load_with([xml]).warnings
    assert name in warning and REFUSED[name].because in warning


def test_a_value_that_asks_for_nothing_stands(load_with: Load) -> None:
    asked = [
        "yarn.nodemanager.linux-container-executor.cgroups.mount=false",
        "yarn.nodemanager.elastic-memory-control.enabled=False",
        "yarn.nodemanager.amrmproxy.ha.enable = false",
    ]
    assert load_with(defines=asked).warnings == ()


def test_the_manual_lists_what_is_refused() -> None:
    page = to_man(site_page())
    for name in REFUSED:
        assert name.replace("-", "\\-") in page or name in page


def test_an_interval_that_nobody_set_is_the_other_ones(load_with: Load) -> None:
    own, other = (
        "yarn.nodemanager.container-monitor.interval-ms",
        "yarn.nodemanager.resource-monitor.interval-ms",
    )
    assert {own: other} == FALLBACKS
    assert load_with().value(own) == 1000
    by_other = load_with(defines=[f"{other}=250"])
    assert (by_other.value(own), by_other.origin(own)) == (250, "-D")
    assert load_with(defines=[f"{other}=250", f"{own}=500"]).value(own) == 500
