"""``yopp completion``: the shell's TAB. Three small scripts, and the words that they ask for.

The scripts call ``yopp completion words WORD…`` with the words typed so far, the last one unfinished. Commands and
options come from the declarations; ids from the running cluster, within a bounded time, and silently none where
there is none.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

from ...errors import YoppError
from ..frame.options import EngineName, Format, Json, Output, examples, new_typer
from ..frame.output import WORDS, Printer
from ..table import ALIASES, COMMANDS
from .option_values import completed, without_values

if TYPE_CHECKING:
    from ...records.reports import ContainerReport

SECONDS = 0.25
"""How long the cluster has to tell its ids."""
SHELLS = ("bash", "zsh", "fish")
_TAKES = {
    "app": dict.fromkeys(("status", "kill", "queue", "priority", "tags", "lifetime"), "app"),
    "attempt": {"list": "app"},
    "node": {"status": "node", "drain": "node", "resume": "node", "resize": "node", "resource": "node"},
    "nm": {
        "start": "node",
        "stop": "node",
        "restart": "node",
        "status": "node",
        "drain": "node",
        "resume": "node",
    },
    "rmadmin": {"update-node-resource": "node"},
    "queue": {"status": "queue"},
}
_ANY = {"wait": ("app", "container"), "logs": ("app", "container"), "explain": ("app", "container", "node")}
_ANY |= {"stats": ("app", "container", "node"), "report": ("app",), "metrics": ("node",)}
_OPTIONS = {"--app": ("app",), "--container": ("container",), "--node": ("node",), "--queue": ("queue",)}
# To whom a command of `container` can do anything at all, by what is known of each without importing records.
_FITTING: dict[str, Callable[[ContainerReport], bool]] = {
    "pause": lambda one: one.state is not None and one.state.value == "RUNNING",
    "resume": lambda one: one.state is not None and one.state.value in ("PAUSING", "PAUSED"),
    "promote": lambda one: one.execution_type.value == "OPPORTUNISTIC",
    "demote": lambda one: one.execution_type.value == "GUARANTEED" and not one.is_am,
}

BASH = """\
_yopp() {
    local IFS=$' \\t\\n' line="${COMP_LINE:0:COMP_POINT}" words cur
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cur="${words[${#words[@]}-1]}"
    IFS=$'\\n'
    COMPREPLY=($(command yopp completion words "${words[@]:1}" 2>/dev/null))
    if [[ $cur == *:* && $COMP_WORDBREAKS == *:* ]]; then  # a node id: bash ends a word at its colon
        local head="${cur%"${cur##*:}"}"
        COMPREPLY=("${COMPREPLY[@]#"$head"}")
    fi
}
complete -o default -F _yopp yopp
"""

ZSH = """\
#compdef yopp
_yopp() {
    local -a found
    found=("${(@f)$(command yopp completion words "${(@)words[2,$CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        compadd -Q -a found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_yopp" ]; then
    _yopp "$@"
else
    compdef _yopp yopp
fi
"""

FISH = """\
function __yopp_words
    set -l typed (commandline -opc) (commandline -ct)
    command yopp completion words $typed[2..-1] 2>/dev/null
end
complete -c yopp -a '(__yopp_words)'
"""


def register(app: typer.Typer) -> None:
    """Add the group ``completion``."""
    group = new_typer(
        help="Print the completion of a shell: bash, zsh or fish.",
        no_args_is_help=True,
        epilog=examples('eval "$(yopp completion bash)"', "yopp completion fish > yopp.fish"),
    )
    group.command(
        "bash", epilog=examples('eval "$(yopp completion bash)"', "yopp completion bash > yopp.bash")
    )(bash)
    group.command("zsh", epilog=examples('eval "$(yopp completion zsh)"', "yopp completion zsh > _yopp"))(zsh)
    group.command(
        "fish", epilog=examples("yopp completion fish | source", "yopp completion fish > yopp.fish")
    )(fish)
    app.add_typer(group, name="completion")


def bash(json: Json = False, output: Output = None) -> None:
    """Print the completion for bash."""
    _script(json, output, "bash", BASH)


def zsh(json: Json = False, output: Output = None) -> None:
    """Print the completion for zsh."""
    _script(json, output, "zsh", ZSH)


def fish(json: Json = False, output: Output = None) -> None:
    """Print the completion for fish."""
    _script(json, output, "fish", FISH)


def _script(json: bool, output: Format | None, shell: str, script: str) -> None:
    printer = Printer.of(output=output, json=json, forms=WORDS)
    if printer.is_json:
        printer.document({"completion": {"shell": shell, "script": script}})
    else:
        printer.text(script.rstrip("\n"))


def words(typed: list[str]) -> None:
    """Print what the last of these words may become, one a line: ``yopp completion words``, called by the scripts."""
    found = complete(typed or [""])
    if found:
        Printer().text("\n".join(found))


def complete(typed: list[str]) -> list[str]:
    """What the last word of ``typed`` may become. Never raises for what is typed wrong; asks the cluster last."""
    *before, last = typed
    if before and before[-1] in _OPTIONS:
        return _starting(_ids(_OPTIONS[before[-1]], before), last)
    path = without_values(before)
    if before and before[-1].startswith("-"):
        named = [*ALIASES.get(path[0], (path[0],)), *path[1:]] if path else []
        values = completed(named, before[-1], last, _command)
        if values is not None:
            return values
    if not path:
        return _options_of([], last) if last.startswith("-") else _starting([*COMMANDS, *ALIASES], last)
    name, *more = (*ALIASES.get(path[0], (path[0],)), *path[1:])
    if name not in COMMANDS:
        return []
    if last.startswith("-"):
        return _options_of([name, *more], last)
    if COMMANDS[name].group and not more:
        return _starting(_subcommands(name), last)
    if name == "engine" and more == ["use"]:
        return _starting([one.value for one in EngineName], last)
    kinds = _kinds(name, more)
    if kinds:
        found = _ids(kinds, before, _FITTING.get(more[0]) if name == "container" else None)
        return _starting(["last", *found] if found and "queue" not in kinds else found, last)
    if name == "config" and more and more[0] in ("get", "set", "show"):
        return _starting(_properties(), last) if more[0] == "show" or len(more) == 1 else []
    if len(more) == 2 and more[0] == "queue" and name == "app":
        return _starting(_ids(("queue",), before), last)
    if name == "man":
        return _starting([*COMMANDS, "yarn-site.toml"], last)
    return []


def _kinds(name: str, more: list[str]) -> tuple[str, ...]:
    """Of what kind the ids are that a command takes."""
    if name == "container" and more and more[0] != "list":
        return ("container",)
    if name == "app" and len(more) > 1 and more[0] in ("queue", "priority", "tags", "lifetime"):
        return ()  # what follows the application is no application
    if name in _TAKES and more and (kind := _TAKES[name].get(more[0])):
        return (kind,)
    return _ANY.get(name, ())


def _starting(candidates: list[str], beginning: str) -> list[str]:
    return list(dict.fromkeys(one for one in candidates if one.startswith(beginning)))


def _command(path: list[str]) -> Any:
    """The parser's command at ``path``; None if there is none."""
    from ..app import build

    command: Any = typer.main.get_command(build())
    for word in path:
        found = getattr(command, "commands", {})
        if word not in found:
            break
        command = found[word]
    return command


def _properties() -> list[str]:
    from ...settings.registry import PROPERTIES

    return list(PROPERTIES)


def _subcommands(name: str) -> list[str]:
    return [one for one, command in _command([name]).commands.items() if not command.hidden]


def _options_of(path: list[str], last: str) -> list[str]:
    command = _command(path)
    named = [
        name
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
        if name.startswith("-") and not getattr(one, "hidden", False)
    ]
    return _starting([name for name in (*named, "--help") if name.startswith("--") or last == "-"], last)


def _ids(
    kinds: tuple[str, ...], before: list[str], fits: Callable[[ContainerReport], bool] | None = None
) -> list[str]:
    """Live ids, newest first, of containers those that ``fits``; nothing where no cluster answers in time."""
    from ...records.client_protocol import GetApplicationsRequest, GetContainersRequest
    from ..frame.context import Context

    try:
        if _is_remote(before):
            return []  # this host's ids would be wrong there, and a cluster elsewhere is too far for a TAB
        context = Context.of(run_dir=_run_dir(before))
        if not os.path.exists(context.run_dir.rm_socket):
            return []
        with context.client() as client:
            client.hurry(SECONDS)
            found: list[str] = []
            if "app" in kinds:
                apps = client.applications(GetApplicationsRequest(live_only=True))
                found += [one.application_id for one in reversed(apps)]
            if "container" in kinds:
                every = client.container_reports(GetContainersRequest())
                found += [one.container_id for one in reversed(every) if fits is None or fits(one)]
            if "node" in kinds:
                found += [one.node_id for one in client.nodes()]
            if "queue" in kinds:
                found += [one.name for one in client.queues()]
            return found
    except (YoppError, OSError):
        return []


def _is_remote(before: list[str]) -> bool:
    """Whether the command line means a YARN cluster. Raises YoppError for one that makes no sense."""
    from ...client.choice import LOCAL, choose

    named = next((after for word, after in itertools.pairwise(before) if word == "--engine"), None)
    named = next((word[9:] for word in before if word.startswith("--engine=")), named)
    rm = ["rm"] if any(word == "--rm" or word.startswith("--rm=") for word in before) else None
    return choose(named, rm, conf=None, define=None, environ=os.environ).name != LOCAL


def _run_dir(before: list[str]) -> str | None:
    for word, following in itertools.pairwise(before):
        if word == "--run-dir":
            return following
    return next((word.partition("=")[2] for word in before if word.startswith("--run-dir=")), None)
