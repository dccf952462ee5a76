"""Hadoop's spellings, rewritten into ours before the parser sees them. Pure: a list of words in, a list of
words out.

``hadoop jar …-examples.jar pi …``, ``yarn …distributedshell.Client -shell_command …``, ``yarn node -list -all``:
commands that a YARN user knows work; help shows only yopp's spellings. A command without a counterpart is a usage
error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from ...errors import UsageError
from ..table import ALIASES, COMMANDS

_COMMON_VALUES = (
    "--conf", "--run-dir", "-D", "--define", "-o", "--output", "--color", "--timeout", "--engine", "--rm"
)  # fmt: skip
_COMMON_FLAGS = ("--json", "-q", "--quiet", "-v", "-vv", "--verbose", "--no-progress", "-y", "--yes")
_COMMON_JOINED = re.compile(r"--(conf|run-dir|define|output|color|timeout|engine|rm)=|-[Do].")
_DISTRIBUTED_SHELL = re.compile(r"(?:org\.apache\.hadoop\.yarn\.applications\.)?distributedshell\.Client")
_PI = frozenset({"pi", "org.apache.hadoop.examples.QuasiMonteCarlo", "QuasiMonteCarlo"})
# Letters and underscores only, at least three: too long for a group of our own one-letter options.
_LONG_WITH_ONE_DASH = re.compile(r"-([A-Za-z][A-Za-z_-]{2,})(=.*)?", re.DOTALL)
_DAEMONS = {"resourcemanager": "rm", "nodemanager": "nm"}


def rewrite(argv: Sequence[str]) -> list[str]:
    """Translate ``argv`` to yopp's own command line. Raises UsageError.

    Idempotent on our own spellings. Options that all commands have may stand before the command, or before the
    subcommand; they are moved behind it, where the parser expects them.
    """
    early: list[str] = []
    words = _take_early(list(argv), early)
    if not words:
        return [*early]
    name, rest = words[0], words[1:]
    if name == "help":
        return [*early, *rest, "--help"]
    if name == "--daemon":
        return [*_daemon(rest), *early]
    if name == "jar":
        return _with_early(early, _jar(rest))
    if _DISTRIBUTED_SHELL.fullmatch(name) or name == "distributedshell":
        return _with_early(early, ["dshell", *_dshell(rest)])
    if name in ALIASES:
        name, rest = ALIASES[name][0], [*ALIASES[name][1:], *rest]
    if name not in COMMANDS and name not in _REWRITERS:
        return [name, *rest] if name.startswith("-") else [*early, name, *rest]
    if name in COMMANDS and COMMANDS[name].group:
        rest = _take_early(rest, early)
    hadoop = _REWRITERS.get(name)
    return _with_early(early, hadoop(rest) if hadoop is not None else [name, *rest])


def _take_early(words: list[str], early: list[str]) -> list[str]:
    """Move the common options at the beginning of ``words`` to ``early``; return what follows them."""
    left = list(words)
    while left:
        word = left[0]
        if word in ("--config", "-conf"):  # Hadoop's option for the directory with the site files.
            early += ["--conf", *left[1:2]]
            del left[:2]
        elif word in _COMMON_VALUES:
            early += left[:2]
            del left[:2]
        elif word in _COMMON_FLAGS or _COMMON_JOINED.match(word):
            early.append(left.pop(0))
        else:
            break
    return left


def _with_early(early: list[str], words: list[str]) -> list[str]:
    """Put the common options behind the command, and behind its subcommand if it has one."""
    if not early:
        return words
    depth = 2 if words[0] in COMMANDS and COMMANDS[words[0]].group and len(words) > 1 else 1
    return [*words[:depth], *early, *words[depth:]]


def _jar(rest: list[str]) -> list[str]:
    """``jar X.jar PROGRAM ARGS``: the two programs of Hadoop's jars in YARN's document on opportunistic containers."""
    if not rest or rest[0].startswith("-"):
        raise UsageError(
            "jar needs the name of a jar file",
            because="no file name follows it",
            hint="yopp pi 50 100, or yopp dshell --help",
        )
    if len(rest) < 2:
        raise UsageError(
            f"jar {rest[0]} needs the name of a program in it",
            because="Hadoop's jars contain several programs",
            hint="pi, or org.apache.hadoop.yarn.applications.distributedshell.Client",
        )
    program, arguments = rest[1], rest[2:]
    if program in _PI:
        return ["pi", *_generic_options(arguments)]
    if _DISTRIBUTED_SHELL.fullmatch(program):
        return ["dshell", *_dshell(arguments)]
    raise UsageError(
        f"cannot run {program} of {rest[0]}",
        because="yopp does not run Java; of Hadoop's jars, pi and the distributed shell are built in",
        hint="run any command with `yopp run -- COMMAND`",
    )


def _generic_options(words: list[str]) -> list[str]:
    """Hadoop's GenericOptionsParser: ``-conf FILE``; ``-D`` is ours already."""
    return ["--conf" if word == "-conf" else word for word in words]


def _dshell(words: list[str]) -> list[str]:
    """The options of YARN's distributed shell client: one or two dashes, underscores or dashes."""
    from ..jobs.dshell import long_options

    known = long_options()
    result: list[str] = []
    pending = iter(range(len(words)))
    for index in pending:
        word = words[index]
        if word == "--":
            return [*result, *words[index:]]
        name, equals, value = _dshell_option(word, known)
        option = "--" + name.replace("_", "-")
        if name == "shell_args" and not word.startswith("--shell-args"):
            # Hadoop's spelling takes all values up to the next option that Hadoop knows
            values = [value] if equals else []
            for following in words[index + 1 :]:
                if following == "--" or _dshell_option(following, known)[0]:
                    break
                values.append(following)
                next(pending)
            result += [f"{option}={one}" for one in values] or [option]
        elif name:
            result.append(option + equals + value)
            if known[name] and not equals and (after := next(pending, None)) is not None:
                result.append(words[after])
        elif _LONG_WITH_ONE_DASH.fullmatch(word) and not word.startswith("-D"):
            result.append("-" + word)  # An unknown long option: the parser reports it as a whole.
        else:
            result.append(word)
    return result


def _dshell_option(word: str, known: Mapping[str, bool]) -> tuple[str, str, str]:
    """(name with underscores, "=" or "", value) of a word that is one of the distributed shell's options."""
    if not word.startswith("-"):
        return "", "", ""
    name, equals, value = word[2 if word.startswith("--") else 1 :].partition("=")
    name = name.replace("-", "_")
    return (name, equals, value) if name in known else ("", "", "")


def _daemon(rest: list[str]) -> list[str]:
    """``--daemon start|stop|status resourcemanager|nodemanager``."""
    if len(rest) < 2 or rest[0] not in ("start", "stop", "status") or rest[1] not in _DAEMONS:
        raise UsageError(
            "--daemon takes start, stop or status, and resourcemanager or nodemanager",
            because="it starts or stops one daemon, as in YARN",
            hint="yopp up starts both, yopp down ends them",
        )
    return [_DAEMONS[rest[1]], rest[0], *rest[2:]]


def _unsupported(command: str, option: str) -> UsageError:
    return UsageError(
        f"yopp {command} {option} has no effect here",
        because="yopp has no counterpart of that YARN option",
        hint=f"`yopp {command} --help` lists the options",
    )


# The translation of each of YARN's options: our words, and the number of its values ("" none, "1" one, "*" any number,
# "~" values that are ignored). -- The words after the verb follow the application that -appId names.
_LAST = "\0last"  # The words after the verb follow the application that -appId names.
_Mapping = dict[str, tuple[tuple[str, ...], str]]
_OPTIONS: dict[str, _Mapping] = {
    "app": {
        "-list": (("list",), ""),
        "-status": (("status",), "1"),
        "-kill": (("kill",), "*"),
        "-appStates": (("--state",), "1"),
        "-appTypes": (("--type",), "1"),
        "-appTags": (("--tag",), "1"),
        "-appId": ((), "1"),
        "-changeQueue": (("queue", _LAST), "1"),
        "-movetoqueue": (("queue",), "1"),
        "-queue": ((), "1"),
        "-updatePriority": (("priority", _LAST), "1"),
        "-updateLifetime": (("lifetime", _LAST), "1"),
    },
    "attempt": {"-list": (("list",), "1"), "-status": (("status",), "1")},
    "container": {
        "-list": (("list", "--app"), "1"),
        "-status": (("status",), "1"),
        "-signal": (("signal",), "*"),
        "-shell": (("shell-into",), "*"),
    },
    "node": {
        "-list": (("list",), ""),
        "-status": (("status",), "1"),
        "-all": (("-a",), ""),
        "-states": (("--state",), "1"),
        "-showDetails": (("-o", "wide"), ""),
    },
    "queue": {"-list": (("list",), "~"), "-status": (("status",), "1")},
    "top": {"-delay": (("--interval",), "1"), "-rows": (("--rows",), "1")},
    "logs": {
        "-applicationId": ((), "1"),
        "-containerId": ((), "1"),
        "-am": (("--am",), "~"),
        "-log_files": (("--log-files",), "*"),
        "-out": (("--out",), "1"),
        "-size": (("--bytes",), "1"),
        "-show_container_log_info": (("--files",), ""),
        "-show_application_log_info": (("--files",), ""),
    },
}
_REFUSED = {
    "app": "-signal -launch -stop -start -save -destroy -flex -enableFastLaunch -upgrade",
    "attempt": "-fail",
    "top": "-cols -queues -types -users",
    "logs": "-log_files_pattern -size_limit_mb -list_nodes -nodeAddress -appOwner -clusterId -client_max_retries "
    "-client_retry_interval_ms",
}
"""YARN's options without a counterpart here."""
_VERBS = {"list", "status", "kill", "signal", "queue", "priority", "lifetime", "shell-into"}
_GROUPS = ("app", "attempt", "container", "node", "queue")


def hadoops_options(command: str) -> list[str]:
    """YARN's options of a command that have a meaning here."""
    return list(_OPTIONS.get(command, ()))


def _mapped(command: str, words: list[str]) -> list[str]:
    """Rewrite ``-list -all`` and the like by the table; words that are not YARN's options stay unchanged."""
    known = {*_OPTIONS[command], *_REFUSED.get(command, "").split()}
    first = next((word for word in words if _yarn_option(known, word)), None)
    if first is None:
        return [command, *words]
    verb: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        option = _yarn_option(known, word)
        if not option:
            others.append("--help" if word in ("-help", "--help") else word)
            continue
        if option not in _OPTIONS[command]:
            raise _unsupported(command, option)
        ours, takes = _OPTIONS[command][option]
        target = verb if ours and ours[0] in _VERBS else others
        if target is verb and verb:
            raise UsageError(
                f"yopp {command}: {option} and -{verb[0]} exclude each other",
                because="each is a separate command",
                hint="give one of them",
            )
        if takes == "1" and not left:
            raise UsageError(
                f"yopp {command}: {option} needs a value",
                because="nothing follows it",
                hint=f"yopp {command} --help",
            )
        many = next((at for at, one in enumerate(left) if one.startswith("-")), len(left))
        count = {"": 0, "1": 1}.get(takes, many)
        target += [*ours, *(left[:count] if takes != "~" else ())]
        del left[:count]
    if command in _GROUPS and not verb:
        raise UsageError(
            f"yopp {command}: {first} needs -list",
            because="that option filters a list",
            hint=f"yopp {command} list --help",
        )
    return [command, *_finished(command, verb, others)]


def _finished(command: str, verb: list[str], others: list[str]) -> list[str]:
    """Adjust options that do not map one to one."""
    if command == "app" and verb == ["list"] and "--state" in others:
        others = ["-a", *others]  # YARN's filter includes ended applications.
    if verb[1:2] == [_LAST]:
        named = [word for word in others if not word.startswith("-")]
        if not named:
            typed = next(option for option, (ours, _) in _OPTIONS["app"].items() if ours == (verb[0], _LAST))
            raise UsageError(
                f"yopp app: {typed} needs -appId",
                because="it changes one application, which must be named",
                hint=f"yopp app {verb[0]} --help",
            )
        others.remove(named[0])
        verb = [verb[0], named[0], *verb[2:]]
    if command == "container" and verb[:1] == ["signal"]:
        name = verb[2] if len(verb) > 2 else "OUTPUT_THREAD_DUMP"
        verb = ["signal", "--signal", _yarn_signal(name), *verb[1:2]]
    if command == "logs":
        others = _log_words(others)
    return [*verb, *others]


def _log_words(words: list[str]) -> list[str]:
    """``logs``: the application beside a named container is dropped; log files are ``stdout`` and ``stderr``."""
    if any(word.startswith("container_") for word in words):
        words = [word for word in words if not word.startswith("application_")]
    if "--log-files" not in words:
        return words
    at = words.index("--log-files")
    end = next(
        (i for i in range(at + 1, len(words)) if not words[i].strip(",").startswith("std")), len(words)
    )
    names = {name for word in words[at + 1 : end] for name in word.split(",") if name}
    if end < len(words) and words[end] in ("ALL", ".*"):
        names, end = {"stdout", "stderr"}, end + 1
    if not names <= {"stdout", "stderr"} or not names:
        raise UsageError(
            "a container's log files are stdout and stderr",
            because="no other files are kept",
            hint="-log_files stdout",
        )
    chosen = [f"--{name}" for name in sorted(names)] if len(names) == 1 else []
    return [*words[:at], *chosen, *words[end:]]


def _yarn_signal(name: str) -> str:
    """YARN's SignalContainerCommand as a signal."""
    known = {"OUTPUT_THREAD_DUMP": "QUIT", "GRACEFUL_SHUTDOWN": "TERM", "FORCEFUL_SHUTDOWN": "KILL"}
    if name not in known:
        raise UsageError(
            f"{name!r} is none of YARN's signals",
            because="`-signal` takes YARN's SignalContainerCommand; `yopp container signal` takes Linux signals",
            hint=f"use one of {', '.join(known)}",
        )
    return known[name]


def _yarn_option(known: Collection[str], word: str) -> str:
    """The option of YARN that ``word`` is, "" if it is none. Two dashes count only if they cannot begin an option of
    ours."""
    if word.startswith("--") and re.search("[A-Z_]|list", word):
        word = word[1:]
    return word if word in known else ""


def _rmadmin(words: list[str]) -> list[str]:
    """``rmadmin``: YARN's options, one of which names the action; our own words stay unchanged."""
    if not words or not words[0].startswith("-") or words[0] in ("-h", "--help"):
        return ["rmadmin", *words]
    option, rest = "-" + words[0].lstrip("-"), words[1:]
    if option == "-help":
        return ["rmadmin", "--help"]
    if option in ("-getServiceState", "-getAllServiceState", "-checkHealth"):
        # YARN names one of several ResourceManagers here (rm1).
        return ["rmadmin", "service-state", *(rest[1:] if rest and not rest[0].startswith("-") else rest)]
    if option == "-updateNodeResource":
        return ["rmadmin", "update-node-resource", *(["--", *rest] if "-1" in rest else rest)]
    if option == "-refreshNodes":
        return ["rmadmin", "refresh-nodes", *_refresh_nodes(rest)]
    if option == "-refreshQueues":
        return ["rmadmin", "refresh-queues", *rest]
    raise _unsupported("rmadmin", option)


def _refresh_nodes(words: list[str]) -> list[str]:
    """``-refreshNodes [-g|graceful [SECONDS] -client|-server]``."""
    result: list[str] = []
    for word in words:
        if word in ("-g", "-graceful", "graceful", "--graceful"):
            result.append("--graceful")
        elif word.isdecimal() and result[-1:] == ["--graceful"]:
            result += ["--kill-after", f"{word}s"]
        # The option names the side that counts the seconds: here it is always the ResourceManager.
        elif word not in ("-client", "-server"):
            result.append(word)
    return result


def _mapred(rest: list[str]) -> list[str]:
    """``mapred job -list [all]``, ``-status JOB`` and ``-kill JOB``: jobs are applications of the type MAPREDUCE, and
    ``job_…`` names one."""
    words = [_JOB.sub("application_", word) for word in rest[1:]] if rest[:1] == ["job"] else []
    match words:
        case ["-list", *more]:
            every = ["-a"] if more[:1] == ["all"] else []
            return ["app", "list", "--type", "MAPREDUCE", *every, *more[len(every) :]]
        case ["-status", *more] if more:
            return ["app", "status", *more]
        case ["-kill", *more] if more:
            return ["app", "kill", *more]
    raise UsageError(
        f"mapred {' '.join(rest[:2])} is not supported here".replace("  ", " "),
        because="of `mapred`, yopp has job -list, job -status JOB and job -kill JOB",
        hint="yopp app --help",
    )


def _cluster(rest: list[str]) -> list[str]:
    """``cluster -lnl``: the labels of nodes."""
    if rest[:1] in (["-lnl"], ["--list-node-labels"], ["-list-node-labels"]):
        return ["node", "labels", *rest[1:]]
    raise UsageError(
        f"cluster {' '.join(rest[:1])} is not supported here".replace("  ", " "),
        because="of `yarn cluster`, yopp has --list-node-labels; its nodes have no attributes",
        hint="yopp node labels",
    )


_JOB = re.compile(r"^job_(?=\d+_\d+$)")
_REWRITERS: dict[str, Callable[[list[str]], list[str]]] = {
    **{command: partial(_mapped, command) for command in _OPTIONS},
    "mapred": _mapred,
    "cluster": _cluster,
    "dshell": lambda words: ["dshell", *_dshell(words)],
    "pi": lambda words: ["pi", *_generic_options(words)],
    "rmadmin": _rmadmin,
}
