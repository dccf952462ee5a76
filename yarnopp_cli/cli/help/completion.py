"""``yopp completion``: the shell's TAB. Three small scripts, and the words that they request.

The scripts call ``yopp completion words WORD…`` with the words typed so far, the last one unfinished. Commands and
options come from the declarations, ids from the running cluster, within a bounded time; without a cluster, no ids are
offered and no error is printed.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from executor.light import Record

from ...errors import YoppError
from ..frame.command import Needs, command
from ..frame.options import Live, Words
from ..frame.output import WORDS, Printer
from ..frame.session import Context, Session
from ..table import ALIASES, COMMANDS
from ..words import given

SECONDS = 0.25
"""Seconds that the cluster has to answer."""
LATEST = 50
"""The number of ended applications that are offered."""
_MANNERS: dict[str, Any] = {"needs": Needs.NOTHING, "forms": WORDS}
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
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef _yopp yopp
fi
"""

FISH = """\
function __yopp_words
    set -l typed (commandline -opc) (commandline -ct)
    set -l found (command yopp completion words $typed[2..-1] 2>/dev/null)
    if set -q found[1]
        printf '%s\\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c yopp -f -a '(__yopp_words)'
"""


@command("completion bash", 'eval "$(yopp completion bash)"', "yopp completion bash > yopp.bash", **_MANNERS)
def bash(session: Session) -> None:
    """Print the completion for bash."""
    _script(session, "bash", BASH)


@command("completion zsh", 'eval "$(yopp completion zsh)"', "yopp completion zsh > _yopp", **_MANNERS)
def zsh(session: Session) -> None:
    """Print the completion for zsh."""
    _script(session, "zsh", ZSH)


@command("completion fish", "yopp completion fish | source", "yopp completion fish > yopp.fish", **_MANNERS)
def fish(session: Session) -> None:
    """Print the completion for fish."""
    _script(session, "fish", FISH)


def _script(session: Session, shell: str, script: str) -> None:
    if session.printer.is_json:
        session.printer.document({"completion": {"shell": shell, "script": script}})
    else:
        session.printer.text(script.rstrip("\n"))


def words(typed: list[str]) -> None:
    """Print the completions of the last of these words, one a line (called by the scripts)."""
    found = complete(typed or [""])
    if found:
        Printer().text("\n".join(found))


def complete(typed: list[str]) -> list[str]:
    """The completions of the last word of ``typed``. Never raises for typing errors; asks the cluster last."""
    *before, last = typed
    place = _place(before)
    if place is None:
        return []
    if place.option is not None:
        return _values(place.option, last, before)
    if place.path == ("run",) and place.given:
        return []  # Words of the command that the container runs: the shell completes files.
    if last.startswith("-"):
        return _options_of(place.command, last)
    if not place.path:
        return _starting([*COMMANDS, *ALIASES], last)
    if hasattr(place.command, "commands"):
        return _starting([name for name, one in place.command.commands.items() if not one.hidden], last)
    argument = _argument(place.command, place.given)
    if place.path == ("run",):
        return _programs(last)
    return [] if argument is None else _values(argument, last, before)


class _Place(Record):
    """The place of the next word: the command so far, the number of its words, and the option whose value comes
    next."""

    path: tuple[str, ...]
    command: Any
    given: int
    option: Any


def _place(before: list[str]) -> _Place | None:
    """The place of the word after these; None if there is no such command."""
    from ..tree import root

    path: tuple[str, ...] = ()
    command, given, option = root(), 0, None  # Before any command, an option is one that most commands have.
    for word in before:
        if option is not None:
            option = None
        elif word.startswith("-"):
            option = None if "=" in word else _valued(command if path else command.commands["ps"], word)
        elif not hasattr(command, "commands"):
            given += 1
        else:
            for one in ALIASES.get(word, (word,)) if not path else (word,):
                if one not in command.commands:
                    return None
                command, path = command.commands[one], (*path, one)
    return _Place(path, command, given, option)


def _valued(command: Any, word: str) -> Any:
    """The option of a command that the word is, if a value follows it."""
    for one in command.params:
        if word in one.opts and not getattr(one, "is_flag", False) and not getattr(one, "count", False):
            return one
    return None


def _argument(command: Any, given: int) -> Any:
    """The argument after this number of words; the last argument may take several."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    if given < len(arguments):
        return arguments[given]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _values(parameter: Any, last: str, before: list[str]) -> list[str]:
    """The completions of ``last``, a value of this option or argument."""
    completes = getattr(parameter, "completes", None)
    if isinstance(completes, Live):
        found = _ids(completes, before)
        is_argument = parameter.param_type_name == "argument" and "queue" not in completes.kinds
        named = found and (is_argument or {"app", "container"} & {*completes.kinds})
        return _starting(["last", *found] if named else found, last)
    if isinstance(completes, Words):
        start, comma, word = last.rpartition(",") if completes.several else ("", "", last)
        minus = "-" if completes.several and word.startswith("-") else ""
        word = word.removeprefix(minus)
        found = list(completes.words())
        fold = str.upper if all(one.isupper() for one in found) else str
        return [f"{start}{comma}{minus}{one}" for one in found if one.startswith(fold(word))]
    return _starting([str(one) for one in getattr(parameter.type, "choices", None) or ()], last)


def _programs(beginning: str) -> list[str]:
    """The programs of PATH whose names begin with this text; none for an empty text, or for a path: the shell
    completes files."""
    found: set[str] = set()
    for folder in os.environ.get("PATH", "").split(os.pathsep) if beginning and "/" not in beginning else ():
        with contextlib.suppress(OSError):
            found |= {
                one
                for one in os.listdir(folder or ".")
                if one.startswith(beginning) and os.access(os.path.join(folder, one), os.X_OK)
            }
    return sorted(found)


def _starting(candidates: list[str], beginning: str) -> list[str]:
    return list(dict.fromkeys(one for one in candidates if one.startswith(beginning)))


def _options_of(command: Any, last: str) -> list[str]:
    named = [
        name
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
        if name.startswith("-") and not getattr(one, "hidden", False)
    ]
    return _starting([name for name in (*named, "--help") if name.startswith("--") or last == "-"], last)


def _ids(wanted: Live, before: list[str]) -> list[str]:
    """Live ids, newest first; none if no cluster answers in time."""
    from ...records.client_protocol import GetContainersRequest
    from ...records.job_protocol import GetApplicationsRequest

    kinds, fits = wanted.kinds, wanted.fits
    try:
        if _is_remote(before):
            return []  # This host's ids would be wrong there, and a remote cluster is too slow for a TAB.
        context = Context.of(run_dir=next(iter(given(before, "--run-dir")), None))
        if not os.path.exists(context.run_dir.rm_socket):
            return []
        with context.client() as client:
            client.hurry(SECONDS)
            found: list[str] = []
            if "app" in kinds:
                apps = client.applications(GetApplicationsRequest(live_only=True))
                found += [one.application_id for one in reversed(apps)]
                latest = client.applications(GetApplicationsRequest(limit=LATEST)) if wanted.ended else ()
                found += [one.application_id for one in reversed(latest)]
            if "container" in kinds:
                every = client.container_reports(GetContainersRequest())
                found += [one.container_id for one in reversed(every) if fits is None or fits(one)]
            if "node" in kinds:
                found += [one.node_id for one in client.nodes()]
            if "queue" in kinds:
                found += [one.name for one in client.queues() if fits is None or fits(one)]
            return found
    except (YoppError, OSError):
        return []


def _is_remote(before: list[str]) -> bool:
    """Whether the command line means a YARN cluster. Raises YoppError for a contradictory one."""
    from ...client.choice import LOCAL, choose

    named, rm = given(before, "--engine"), given(before, "--rm")
    engine = named[0] if named else None
    return choose(engine, rm or None, conf=None, define=None, environ=os.environ).name != LOCAL
