"""Hadoop's spellings: every row of the tables, and that our own pass unharmed."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yarnopp_cli.cli.frame.argv import rewrite
from yarnopp_cli.errors import UsageError, YoppError

from ..steps import steps

JAR = "share/hadoop/mapreduce/hadoop-mapreduce-examples-3.4.0-SNAPSHOT.jar"
SHELL_JAR = "share/hadoop/yarn/hadoop-yarn-applications-distributedshell-3.4.0-SNAPSHOT.jar.jar"
CLIENT = "org.apache.hadoop.yarn.applications.distributedshell.Client"
APP = "application_1765400000000_0001"
ATTEMPT = "appattempt_1765400000000_0001_000001"
CONTAINER = "container_1765400000000_0001_01_000002"

# The options of YARN's distributed shell client (its ``Client``): with a value, and without.
YARNS_VALUES = (
    "appname", "priority", "queue", "timeout", "master_memory", "master_vcores", "master_resources",
    "master_resource_profile", "jar", "shell_command", "shell_script", "shell_args", "shell_env",
    "shell_cmd_priority", "container_type", "container_memory", "container_vcores", "container_resources",
    "container_resource_profile", "num_containers", "log_properties", "rolling_log_pattern",
    "attempt_failures_validity_interval", "domain", "view_acls", "modify_acls", "flow_name",
    "flow_version", "flow_run_id", "node_label_expression", "node_attributes", "container_retry_policy",
    "container_retry_error_codes", "container_max_retries", "container_retry_interval",
    "container_failures_validity_interval", "docker_client_config", "placement_spec", "application_tags",
    "localize_files",
)  # fmt: skip
YARNS_FLAGS = (
    "promote_opportunistic_after_start", "enforce_execution_type",
    "keep_containers_across_application_attempts", "debug", "create", "help",
)  # fmt: skip

ROWS = [
    # the document, verbatim
    (
        f'jar {JAR} pi -Dmapreduce.job.num-opportunistic-maps-percent="40" 50 100',
        "pi -Dmapreduce.job.num-opportunistic-maps-percent=40 50 100",
    ),
    (
        f"{CLIENT} -jar {SHELL_JAR} -shell_command sleep -shell_args 10 -num_containers 10"
        " -container_type OPPORTUNISTIC",
        f"dshell --jar {SHELL_JAR} --shell-command sleep --shell-args=10 --num-containers 10"
        " --container-type OPPORTUNISTIC",
    ),
    (f"jar {SHELL_JAR} {CLIENT} -shell_command ls", "dshell --shell-command ls"),
    ("mapred job -list", "app list --type MAPREDUCE"),
    ("cluster -lnl", "node labels"),
    ("cluster --list-node-labels --json", "node labels --json"),
    ("mapred job -list all", "app list --type MAPREDUCE -a"),
    ("mapred job -status job_1765400000000_0001", f"app status {APP}"),
    ("mapred job -kill job_1765400000000_0001 -y", f"app kill {APP} -y"),
    # the distributed shell
    (
        "dshell -promote_opportunistic_after_start -enforce_execution_type",
        "dshell --promote-opportunistic-after-start --enforce-execution-type",
    ),
    (
        "dshell -shell_args -la /tmp -num_containers 2",
        "dshell --shell-args=-la --shell-args=/tmp --num-containers 2",
    ),
    ("dshell --shell-args -la -n 2", "dshell --shell-args -la -n 2"),
    ("dshell --shell_args a b", "dshell --shell-args=a --shell-args=b"),
    ("dshell -shell-args a b", "dshell --shell-args=a --shell-args=b"),
    ("dshell -shell_args=a b -debug", "dshell --shell-args=a --shell-args=b --debug"),
    ("dshell -shell_args", "dshell --shell-args"),
    ("dshell -shell_comand ls", "dshell --shell_comand ls"),
    ("dshell -num_container 3", "dshell --num_container 3"),
    ("dshell -shell_command=ls", "dshell --shell-command=ls"),
    ("dshell -shell_command -x", "dshell --shell-command -x"),
    (
        "dshell -shell_env A=1 -shell_env B=-num_containers",
        "dshell --shell-env A=1 --shell-env B=-num_containers",
    ),
    ("dshell -num_containers", "dshell --num-containers"),
    ("dshell -n 10 -O -- sleep -num_containers 3", "dshell -n 10 -O -- sleep -num_containers 3"),
    ("dshell -Dyopp.run.vcores=2 -n3", "dshell -Dyopp.run.vcores=2 -n3"),
    ("dshell -help", "dshell --help"),
    ("distributedshell -timeout 1000", "dshell --timeout 1000"),
    # jar, pi
    (f"jar {JAR} pi -conf site.xml 1 2", "pi --conf site.xml 1 2"),
    (f"jar {JAR} org.apache.hadoop.examples.QuasiMonteCarlo 1 2", "pi 1 2"),
    ("pi -D a=b 50 100", "pi -D a=b 50 100"),
    # applications
    ("application -list", "app list"),
    ("app -list", "app list"),
    ("application -list -appStates RUNNING,ACCEPTED", "app list -a --state RUNNING,ACCEPTED"),
    ("application -appTypes YARN -list -appTags a,b", "app list --type YARN --tag a,b"),
    (f"application -status {APP}", f"app status {APP}"),
    (f"application -changeQueue q -appId {APP}", f"app queue {APP} q"),
    (f"app -appId {APP} -changeQueue q --json", f"app queue {APP} q --json"),
    (f"application -movetoqueue {APP} -queue q", f"app queue {APP} q"),
    (f"app -updatePriority 3 -appId {APP}", f"app priority {APP} 3"),
    (f"application -appId {APP} -updateLifetime 60", f"app lifetime {APP} 60"),
    (f"application -updateLifetime 60 -appId {APP}", f"app lifetime {APP} 60"),
    (f"application -kill {APP} {APP}", f"app kill {APP} {APP}"),
    ("application --list --appStates ALL", "app list -a --state ALL"),
    ("apps --json", "app list --json"),
    (f"applicationattempt -list {APP}", f"attempt list {APP}"),
    (f"applicationattempt -status {ATTEMPT}", f"attempt status {ATTEMPT}"),
    # containers, nodes, queues, logs
    (f"container -list {ATTEMPT}", f"container list --app {ATTEMPT}"),
    (f"container -status {CONTAINER}", f"container status {CONTAINER}"),
    (f"container -signal {CONTAINER}", f"container signal --signal QUIT {CONTAINER}"),
    (f"container -signal {CONTAINER} FORCEFUL_SHUTDOWN", f"container signal --signal KILL {CONTAINER}"),
    ("node -list -all", "node list -a"),
    ("node -list -states RUNNING,LOST", "node list --state RUNNING,LOST"),
    ("node -list -showDetails", "node list -o wide"),
    ("node -all -list", "node list -a"),
    ("node -status host1:45454", "node status host1:45454"),
    ("nodes --json", "node list --json"),
    ("queue -status default", "queue status default"),
    ("queue -list root", "queue list"),
    (f"logs -applicationId {APP}", f"logs {APP}"),
    (f"logs -applicationId {APP} -containerId {CONTAINER}", f"logs {CONTAINER}"),
    (f"logs -applicationId {APP} -am ALL", f"logs {APP} --am"),
    (f"logs -applicationId {APP} -log_files stderr", f"logs {APP} --stderr"),
    (f"logs -applicationId {APP} -size -100", f"logs {APP} --bytes -100"),
    (f"logs -applicationId {APP} -show_container_log_info", f"logs {APP} --files"),
    (f"logs -log_files stdout stderr -applicationId {APP}", f"logs {APP}"),
    (f"logs -applicationId {APP} -out /tmp/x", f"logs {APP} --out /tmp/x"),
    # daemons and administration
    ("--daemon start resourcemanager", "rm start"),
    ("--daemon stop nodemanager", "nm stop"),
    ("--config /etc/hadoop node -list", "node list --conf /etc/hadoop"),
    ("resourcemanager", "rm run"),
    ("nodemanager", "nm run"),
    ("rmadmin -getServiceState rm1", "rmadmin service-state"),
    ("rmadmin -checkHealth rm1", "rmadmin service-state"),
    ("rmadmin -refreshQueues", "rmadmin refresh-queues"),
    ("rmadmin -refreshNodes", "rmadmin refresh-nodes"),
    ("rmadmin -refreshNodes -g 30 -server", "rmadmin refresh-nodes --graceful --kill-after 30s"),
    ("rmadmin -refreshNodes -g -client --dry-run", "rmadmin refresh-nodes --graceful --dry-run"),
    ("rmadmin -updateNodeResource host1:45454 4096 8", "rmadmin update-node-resource host1:45454 4096 8"),
    ("rmadmin -help", "rmadmin --help"),
    ("--json rmadmin -getServiceState", "rmadmin service-state --json"),
    (f"app -updatePriority 3 -appId {APP}", f"app priority {APP} 3"),
    (f"app -appId {APP} -updatePriority 3 --json", f"app priority {APP} 3 --json"),
    # common options before the command, or before the subcommand
    ("--run-dir /d node list", "node list --run-dir /d"),
    ("--json -q node --color never list -a", "node list --json -q --color never -a"),
    ("--run-dir=/d run sleep --json", "run --run-dir=/d sleep --json"),
    ("-Da=1 pi 1 2", "pi -Da=1 1 2"),
    # ours stay ours
    ("", ""),
    ("--help", "--help"),
    ("-V", "-V"),
    ("run -n 3 -O sleep -list", "run -n 3 -O sleep -list"),
    ("logs -f last --tail 3", "logs -f last --tail 3"),
    ("node list -a", "node list -a"),
    ("foo bar", "foo bar"),
]


@pytest.mark.parametrize(("typed", "becomes"), ROWS)
def test_rows(typed: str, becomes: str) -> None:
    assert rewrite(shlex.split(typed)) == shlex.split(becomes)


@pytest.mark.parametrize("becomes", [becomes for _, becomes in ROWS])
def test_our_own_spelling_is_left_alone(becomes: str) -> None:
    words = shlex.split(becomes)
    assert rewrite(words) == words


@pytest.mark.parametrize("name", sorted(set(YARNS_VALUES) - {"shell_args"}))
@pytest.mark.parametrize("dash", ["-", "--"])
def test_every_valued_option_of_the_distributed_shell(name: str, dash: str) -> None:
    option = "--" + name.replace("_", "-")
    assert rewrite(["dshell", dash + name, "-1", "-debug"]) == ["dshell", option, "-1", "--debug"]
    assert rewrite(["dshell", dash + name.replace("_", "-") + "=-1"]) == ["dshell", option + "=-1"]


@pytest.mark.parametrize("name", YARNS_FLAGS)
def test_every_flag_of_the_distributed_shell(name: str) -> None:
    assert rewrite(["dshell", "-" + name, "x"]) == ["dshell", "--" + name.replace("_", "-"), "x"]


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("jar", "jar"),
        (f"jar {JAR}", "program"),
        (f"jar {JAR} wordcount in out", "wordcount"),
        ("--daemon start", "--daemon"),
        ("--daemon restart resourcemanager", "--daemon"),
        ("app -updatePriority 3", "-appId"),
        ("application -appStates RUNNING", "-list"),
        (f"application -list -kill {APP}", "exclude"),
        ("application -status", "-status"),
        (f"container -signal {CONTAINER} NO_SUCH", "NO_SUCH"),
        (f"logs -applicationId {APP} -log_files syslog", "stdout and stderr"),
        ("rmadmin -transitionToActive rm1", "-transitionToActive"),
        ("mapred job -history", "-history"),
        ("cluster --list-node-attributes", "--list-node-attributes"),
        ("mapred job -kill", "-kill"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_its_name(typed: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        rewrite(shlex.split(typed))
    assert caught.value.exit_code == 2
    assert named in str(caught.value)
    assert caught.value.hint


TRICKY = ["-D", "-o", "-q", "--json", "--", "jar", "pi", "app", "node", "logs", "dshell", "-list", "-status",
          "-shell_args", "-log_files", "--daemon", "--conf"]  # fmt: skip


@given(st.lists(st.one_of(st.text(max_size=8), st.sampled_from(TRICKY)), max_size=8))
def test_it_never_fails_but_with_a_usage_error(words: list[str]) -> None:
    try:
        result = rewrite(words)
    except YoppError as error:
        assert error.exit_code == 2
    else:
        assert all(isinstance(word, str) for word in result)


def test_it_costs_next_to_nothing() -> None:
    words = shlex.split(ROWS[1][0])
    rewrite(words)
    lines = steps(lambda: rewrite(words))
    assert lines < 1000, f"{lines} lines executed"
