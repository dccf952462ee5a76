"""Makes typed settings from files and ``-D``: layers, origins, and errors.

Layers, lowest first: the defaults; the site found (or the files that ``YOPP_CONF`` or ``--conf`` names instead, in
order); ``-D``. Each value knows its origin. Unknown names, wrong values and contradictions are ConfigurationErrors
that name the place; only Hadoop's own XML files may contain names that yopp does not use, since every real one does.

Decisions: strict-properties.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from executor.hints import TYPE_CHECKING, Any, TypeVar
from executor.light import Record, replace, suppress
from executor.records import Others
from executor.settings import Property

from ..errors import (
    EXIT_CONFIGURATION,
    ConfigurationError,
    InvalidPropertyError,
    RemoteError,
    UnknownPropertyError,
)
from .declarations import (
    DIRECTORIES,
    FALLBACKS,
    PROPERTIES,
    PROPERTIES_OF,
    STATE_DIR_VARIABLE,
    ApplicationSettings,
    declared,
)
from .entries import PropertyEntry
from .files import chosen_files, home_of, read_file, user_of
from .queues import ACL_ENABLE, QUEUE_PREFIX, CapacitySchedulerSettings, QueueSettings, mappings_of
from .rules import (
    ADDRESSES,
    AMRM_PROXY,
    DEFAULT,
    HOST_NAMES,
    LOOPBACK_NAMES,
    Values,
    contradictions,
    doubts,
    why_not_here,
)
from .suggest import nearest, printable, printable_path
from .values import (
    ExpansionError,
    Refused,
    Value,
    environment_variable,
    expand,
    expected,
    from_text,
    from_toml,
    to_text,
)

if TYPE_CHECKING:
    from .refused import Refusal

COMMAND_LINE = "-D"
"""The origin of a value from the command line."""

S = TypeVar("S")


class Configuration:
    """Every property's value and origin. Read-only.

    ``state_dir`` is the value of ``${yopp.state-dir}``, ``sources`` are the files that were read, ``warnings``
    sentences that a command may print.
    """

    __slots__ = ("_origins", "_values", "sources", "state_dir", "warnings")

    def __init__(
        self,
        values: Mapping[str, Value],
        origins: Mapping[str, str],
        *,
        state_dir: str,
        sources: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self._values = dict(values)
        self._origins = dict(origins)
        self.state_dir = state_dir
        self.sources = tuple(sources)
        self.warnings = tuple(warnings)

    def value(self, name: str) -> Value:
        """A property's value. Raises UnknownPropertyError, with the nearest name."""
        if name not in self._values:
            if (of_queue := declared(name)) is None:
                raise unknown_property(name)
            return default_value(of_queue, self.state_dir)
        return self._values[name]

    def origin(self, name: str) -> str:
        """The origin of a property's value: "file:line", "file", "-D" or "default". Raises UnknownPropertyError."""
        if name not in self._values and declared(name) is None:
            raise unknown_property(name)
        return self._origins.get(name, DEFAULT)

    def patterned_properties(self) -> tuple[str, ...]:
        """The names of the properties of queues and resource types that are set."""
        return tuple(name for name in self._values if name not in PROPERTIES)

    def of_scheduler(self) -> dict[str, tuple[str, str]]:
        """The properties of the queues and of their scheduler that are set: value as text, and origin."""
        return {
            name: (to_text(value), self._origins[name])
            for name, value in self._values.items()
            if name.startswith(QUEUE_PREFIX) and name in self._origins
        }

    def with_scheduler(self, given: Mapping[str, tuple[str, str]]) -> Configuration:
        """A copy with these properties of the queues and of their scheduler; a property that is not included has its
        default. Raises Refused for an invalid value."""
        values = defaults(self.state_dir) | _others(self._values)
        origins = _others(self._origins)
        for name, (text, origin) in given.items():
            if (known := declared(name)) is not None:
                values[name], origins[name] = from_text(known, text), origin
        return Configuration(values, origins, state_dir=self.state_dir, sources=self.sources)

    def queues(self) -> QueueSettings:
        """The queues of guaranteed containers."""
        from .queue_properties import queue_tree

        return queue_tree(self._values)[0]

    def resources_of_node(self, port: int) -> Others:
        """The amounts of the countable resource types of the node with this port."""
        from .resource_types import RESOURCE_TYPES, amounts_of_node

        return amounts_of_node(self._values, port) if self._values[RESOURCE_TYPES] else ()

    def from_command_line(self) -> tuple[str, ...]:
        """The properties that ``-D`` has set."""
        return tuple(name for name, origin in self._origins.items() if origin == COMMAND_LINE)

    def differences(self, running: Configuration) -> tuple[str, ...]:
        """The properties that are set here to other values than in a running cluster. A ``-D`` of the cluster
        outweighs files here, as it did when the cluster was started."""
        return tuple(
            name
            for name, origin in self._origins.items()
            if origin != DEFAULT
            and (origin == COMMAND_LINE or running.origin(name) != COMMAND_LINE)
            and self.value(name) != running.value(name)
        )

    def settings(self, kind: type[S]) -> S:
        """An instance of a settings class with these values. Raises KeyError for another class."""
        return kind(**{one.attribute: self._values[one.name] for one in PROPERTIES_OF[kind]})

    def non_default(self) -> dict[str, str]:
        """The properties whose value is not the default, by name, as text."""
        return {
            name: to_text(value)
            for name, value in self._values.items()
            if name not in PROPERTIES or value != default_value(PROPERTIES[name], self.state_dir)
        }

    def to_json(self) -> str:
        """The configuration as one JSON object, for ``site.json``: the daemons of a cluster read it."""
        import json

        document = {
            "stateDir": self.state_dir,
            "sources": self.sources,
            "properties": {
                name: {"value": value, "origin": self._origins.get(name, DEFAULT)}
                for name, value in self._values.items()
            },
        }
        return json.dumps(document, indent=1) + "\n"

    def beside(self, text: str, *, named: bool) -> Configuration:
        """The configuration of a job that is submitted to a cluster whose ``site.json`` is ``text``. Raises
        ConfigurationError.

        The layers, highest first: this command's ``-D`` and, if they were ``named``, its files; the values with which
        the cluster was started; for properties of jobs, the site that was found here, which is newer if the cluster
        read the same file."""
        try:
            import json

            values, origins = dict(self._values), dict(self._origins)
            properties: dict[str, dict[str, Any]] = json.loads(text)["properties"]
            theirs = {name: one for name, one in properties.items() if one["origin"] != DEFAULT}
            of_jobs = {one.name for one in PROPERTIES_OF[ApplicationSettings]}
            for name in {**theirs, **origins}:
                own, there = origins.get(name, ""), theirs.get(name, {"origin": DEFAULT, "value": None})
                file = there["origin"].rpartition(":")[0] or there["origin"]
                is_own = name in of_jobs and (file == DEFAULT or own == file or own.startswith(f"{file}:"))
                if own == COMMAND_LINE or (own and (named or is_own)) or (known := declared(name)) is None:
                    continue
                if name in theirs:
                    values[name] = from_toml(known, there["value"])
                    origins[name] = f"the running cluster ({there['origin']})"
                else:
                    del values[name], origins[name]
                    if name in PROPERTIES:
                        values[name] = default_value(known, self.state_dir)
        except (Refused, ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationError(
                "the site.json of this cluster is damaged",
                because="it does not have the form that `yopp up` writes",
            ) from None
        return Configuration(
            values, origins, state_dir=self.state_dir, sources=self.sources, warnings=self.warnings
        )

    @classmethod
    def from_json(cls, text: str) -> Configuration:
        """Read the output of ``to_json``. Raises ConfigurationError.

        A name that this version does not declare is ignored, and a missing one has its default: the file may be of the
        version before an upgrade, and its values were checked when it was written."""
        import json

        try:
            document = json.loads(text)
            state_dir, properties = str(document["stateDir"]), document["properties"]
            values, origins = defaults(state_dir), {}
            for name, given in properties.items():
                if (known := declared(name)) is not None:
                    values[name] = from_toml(known, given["value"])
                    origins[name] = str(given["origin"])
            sources = [str(source) for source in document["sources"]]
        except Refused as error:
            raise ConfigurationError("the site.json of this cluster is damaged", because=str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ConfigurationError(
                "the site.json of this cluster is damaged",
                because="it does not have the form that `yopp up` writes",
            ) from None
        return cls(values, origins, state_dir=state_dir, sources=sources)


class Findings(Record):
    """The result of reading: a configuration, or None and every problem in order."""

    configuration: Configuration | None
    problems: list[ConfigurationError]
    warnings: list[str]
    sources: list[str]


def load(
    conf: Sequence[str],
    defines: Sequence[str],
    *,
    environ: Mapping[str, str],
    state_dir: str,
    texts: Mapping[str, str] | None = None,
) -> Configuration:
    """The configuration of a command: its ``--conf`` and ``-D`` texts ("name=value") over the site that is found.

    ``state_dir`` is the value of ``${yopp.state-dir}``; ``texts`` replace the content of the files with these paths.
    Raises ConfigurationError: the first of the problems.
    """
    findings = examine(conf, defines, environ=environ, state_dir=state_dir, texts=texts)
    if findings.configuration is not None:
        return findings.configuration
    first, others = findings.problems[0], len(findings.problems) - 1
    if others:
        more = f"{others} more problem{'s' if others > 1 else ''}: `yopp config check` lists all"
        first.hint = f"{first.hint}; {more}" if first.hint else more
    raise first


def examine(
    conf: Sequence[str],
    defines: Sequence[str],
    *,
    environ: Mapping[str, str],
    state_dir: str,
    texts: Mapping[str, str] | None = None,
) -> Findings:
    """Do as ``load``, but raise nothing and find every problem, not only the first."""
    layers = _Layers()
    sources: list[str] = []
    try:
        sources = chosen_files(conf, environ)
    except ConfigurationError as error:
        layers.problems.append(error)
    for path in sources:
        layers.add_file(path, (texts or {}).get(path))
    for text in defines:
        layers.add_define(text)
    values = layers.typed(environ, state_dir)
    view = Values(values, {name: entry.origin for name, entry in layers.chosen.items()})
    layers.problems += contradictions(view)
    layers.warnings += doubts(view)
    configuration = None
    if not layers.problems:
        configuration = Configuration(
            values, view.origins, state_dir=state_dir, sources=sources, warnings=layers.warnings
        )
    return Findings(configuration, layers.problems, layers.warnings, sources)


def _others(of: Mapping[str, S]) -> dict[str, S]:
    """The entries that do not belong to the queues and their scheduler."""
    return {name: one for name, one in of.items() if not name.startswith(QUEUE_PREFIX)}


def defaults(state_dir: str) -> dict[str, Value]:
    """Every property's default, by name."""
    return {name: default_value(known, state_dir) for name, known in PROPERTIES.items()}


def default_value(known: Property, state_dir: str) -> Value:
    """A property's default, with the one variable that defaults use replaced."""
    default: Value = known.default
    return (
        default.replace("${" + STATE_DIR_VARIABLE + "}", state_dir) if isinstance(default, str) else default
    )


def unknown_property(name: str, origin: str = "") -> UnknownPropertyError:
    """The error for an undeclared name: why YARN's property is refused, or the nearest declared name."""
    where = f"{origin}: " if origin else ""
    if (refusal := _refusal(name)) is not None:
        message = f"{where}{name} is not supported"
        return UnknownPropertyError(message, because=refusal.because, hint=refusal.instead)
    near, because = nearest(name, PROPERTIES), "no property has that name"
    if name.startswith(QUEUE_PREFIX):
        from .queue_properties import nearest_name, why_unsupported

        near = nearest_name(name) or near
        if (reason := why_unsupported(name)) is not None:
            near, because = None, f"YARN's property has no effect here: {reason}"
    hint = f"did you mean {near}?" if near else _where_to_look(name)
    if name == STATE_DIR_VARIABLE:
        hint = "the state directory follows from the run directory: see --run-dir and YOPP_RUN_DIR"
    return UnknownPropertyError(f"{where}unknown property {printable_path(name)}", because=because, hint=hint)


def _refusal(name: str) -> Refusal | None:
    from .refused import REFUSED  # Imported late: declared properties do not need it.

    return REFUSED.get(name)


def _where_to_look(name: str) -> str:
    """A command that lists properties, for a name that is near to no declared one."""
    known, among = name.split("."), "`yopp config show -a"
    for length in range(len(known) - 1, 0, -1):
        beginning = ".".join(known[:length]) + "."
        if any(one.startswith(beginning) for one in PROPERTIES):
            return f"{among} | grep {beginning}` lists the existing ones"
    return "`yopp config show --all` lists every property"


def misspelt(warnings: Iterable[str]) -> list[str]:
    """The warnings of a configuration about a name that is nearly one of yopp's."""
    return [line for line in warnings if _MEANT in line]


_MEANT = " is ignored; did you mean "
# Nearly all of YARN's own properties with these beginnings are declared or refused here.
_KNOWN_WHOLE = ("yarn.resourcemanager.", "yarn.nodemanager.")


def _nearest_of_ours(name: str) -> str | None:
    """The declared name that a name in Hadoop's file nearly matches: within a letter or two of the whole name, or of
    the part behind a known namespace. Hadoop's files rightly contain many names that are not ours."""
    near = nearest(name, PROPERTIES, cutoff=0.93)
    head = next((one for one in _KNOWN_WHOLE if name.startswith(one)), "")
    if near is None and head:
        from .refused import REFUSED

        tails = [one.removeprefix(head) for one in (*PROPERTIES, *REFUSED) if one.startswith(head)]
        tail = nearest(name.removeprefix(head), tails, cutoff=0.8)
        near = head + tail if tail else None
    return near


class _Layers:
    """The entries that apply, by name, while one layer is laid over another."""

    __slots__ = ("chosen", "problems", "strangers", "warnings")

    def __init__(self) -> None:
        self.chosen: dict[str, PropertyEntry] = {}
        self.strangers: dict[str, str] = {}  # Hadoop's own properties, which variables may name.
        self.problems: list[ConfigurationError] = []
        self.warnings: list[str] = []

    def add_file(self, path: str, text: str | None = None) -> None:
        reading = read_file(path, text)
        self.problems += reading.problems
        self.warnings += reading.warnings
        # A final value binds the files after this one, not the lines after it.
        final = {name for name, entry in self.chosen.items() if entry.final}
        ignored: list[str] = []
        proxies = [
            one for one in (self.chosen.get(AMRM_PROXY), *reading.entries) if one and one.name == AMRM_PROXY
        ]
        proxy = proxies[-1].value if proxies else PROPERTIES[AMRM_PROXY].default
        for entry in sorted(reading.entries, key=lambda one: one.name in ADDRESSES):
            if entry.from_xml and entry.name in ADDRESSES:
                entry = replace(entry, value=self._with_host(str(entry.value)))
            if declared(entry.name) is None:
                self._add_stranger(entry, ignored)
            elif entry.name in final:
                first = self.chosen[entry.name].origin
                self.warnings.append(f"{entry.origin}: {entry.name} is ignored: it is final in {first}")
            elif entry.from_xml and (
                why := why_not_here(entry.name, entry.value, proxy, os.uname().nodename)
            ):
                self.warnings.append(f"{entry.origin}: {entry.name} is ignored: {why}")
            else:
                self.chosen[entry.name] = entry
        if ignored:
            names = ", ".join(printable(name) for name in ignored[:3]) + (", …" if len(ignored) > 3 else "")
            noun = "1 property that means" if len(ignored) == 1 else f"{len(ignored)} properties that mean"
            self.warnings.append(f"{printable_path(path)}: ignored {noun} nothing to yopp ({names})")

    def _with_host(self, address: str) -> str:
        """An address with its variables replaced, as far as Hadoop's files define them, and with another name of
        loopback replaced by the first one."""

        def lookup(variable: str) -> str | None:
            return self.strangers.get(variable, HOST_NAMES.get(variable))

        with suppress(ExpansionError):
            address = expand(address, lookup)
        host, _, port = address.strip().rpartition(":")
        return f"{LOOPBACK_NAMES[0]}:{port}" if host.lower().rstrip(".") in LOOPBACK_NAMES else address

    def _leave_out_strays(self) -> None:
        """Leave out the entries of a Hadoop file about queues that do not exist: files of distributions contain such
        remains. A warning names them, as in ``add_file``."""
        from .queue_properties import strays_of

        texts = {name: str(entry.value) for name, entry in self.chosen.items() if entry.from_xml}
        for name, why in strays_of(texts, {name: str(one.value) for name, one in self.chosen.items()}):
            self.warnings.append(f"{self.chosen.pop(name).origin}: {name} is ignored: {why}")

    def _add_stranger(self, entry: PropertyEntry, ignored: list[str]) -> None:
        refusal = _refusal(entry.name)
        if refusal is not None and refusal.stands(entry.value):
            return
        if refusal is not None and entry.from_xml:
            self.warnings.append(f"{entry.origin}: {entry.name} is ignored: {refusal.because}")
            return
        if not entry.from_xml or entry.name.startswith("yopp."):
            self.problems.append(unknown_property(entry.name, entry.origin))
            return
        self.strangers[entry.name] = str(entry.value)
        near = _nearest_of_ours(entry.name)
        if near is None:
            ignored.append(entry.name)
        else:
            name = printable(entry.name)
            self.warnings.append(f"{entry.origin}: unknown property {name}{_MEANT}{near}?")

    def add_define(self, text: str) -> None:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            because = "it has no name" if equals else "it has no '='"
            problem = f"-D {printable(text)}: not a property"
            self.problems.append(InvalidPropertyError(problem, because=because, hint="write -Dname=value"))
        elif declared(name) is None:
            if (refusal := _refusal(name)) is None or not refusal.stands(value):
                self.problems.append(unknown_property(name, COMMAND_LINE))
        else:
            self.chosen[name] = PropertyEntry(name, value, COMMAND_LINE)

    def typed(self, environ: Mapping[str, str], state_dir: str) -> dict[str, Value]:
        """All values. A value that cannot be read is a problem, and its default replaces it for the following rules."""

        def lookup(variable: str) -> str | None:
            if variable in self.chosen:
                value = self.chosen[variable].value
                return to_text(value) if isinstance(value, bool | int | float | str) else None
            if variable in self.strangers:
                return self.strangers[variable]
            if (named := declared(variable)) is not None:
                return to_text(named.default)
            if variable == STATE_DIR_VARIABLE:
                return state_dir
            if variable == "user.home":
                return home_of(environ)
            if variable == "user.name":
                return user_of(environ)
            return environment_variable(variable, environ.get)

        if any(entry.from_xml and name.startswith(QUEUE_PREFIX) for name, entry in self.chosen.items()):
            self._leave_out_strays()
        for name, other in FALLBACKS.items():
            if name not in self.chosen and other in self.chosen:
                self.chosen[name] = PropertyEntry(name, self.chosen[other].value, self.chosen[other].origin)
        values = defaults(state_dir)
        patterned = [name for name in self.chosen if name not in PROPERTIES]
        for name in (*PROPERTIES, *patterned):
            entry, known = self.chosen.get(name), declared(name)
            if entry is None or known is None:
                continue
            try:
                values[name] = self._value_of(known, entry, lookup)
            except (Refused, ExpansionError) as error:
                self.problems.append(_invalid(known, entry, str(error)))
        return values

    def _value_of(self, known: Property, entry: PropertyEntry, lookup: Any) -> Value:
        if not isinstance(entry.value, str):
            return from_toml(known, entry.value)
        text = expand(entry.value, lookup)
        if entry.from_xml and known.name in DIRECTORIES:
            text = self._one_directory(entry, text)
        return from_text(known, text)

    def _one_directory(self, entry: PropertyEntry, text: str) -> str:
        """Hadoop's form of a directory property: a list of paths or file: URIs, of which the first is used."""
        first, comma, _ = text.partition(",")
        if comma:
            self.warnings.append(
                f"{entry.origin}: {entry.name} lists several directories; only the first is used"
            )
        first = first.strip()
        return "/" + first.removeprefix("file:").lstrip("/") if first.startswith("file:/") else first


def _invalid(known: Property, entry: PropertyEntry, because: str) -> InvalidPropertyError:
    shown = entry.value if isinstance(entry.value, str) else None
    if isinstance(entry.value, bool | float) or (
        # str() of a very large number is slow, or refused.
        isinstance(entry.value, int) and abs(entry.value) < 10**18
    ):
        shown = to_text(entry.value)
    value = f" = {printable(shown)}" if shown is not None else ""
    hint = f"its default is {to_text(known.default)}" if known.default != "" else ""
    if known.name in DIRECTORIES:
        hint = 'a full path, such as "/var/tmp/yopp"; ${user.home} is your home directory'
    return InvalidPropertyError(f"{entry.origin}: {entry.name}{value}", because=because, hint=hint)


def describe(known: Property) -> str:
    """The values that a property takes, and its default: "a whole number of at least 0; default 10"."""
    default = to_text(known.default)
    return f"{expected(known)}; default {default}" if default else f"{expected(known)}; empty by default"


# -- queues that are refreshed ------------------------------------------------------------------------------


def read_queues(
    given: Mapping[str, str], capacity: CapacitySchedulerSettings
) -> tuple[QueueSettings, CapacitySchedulerSettings, dict[str, str]]:
    """Make settings from properties of the queues, as text: ``rmadmin -refreshQueues`` sends them. The ResourceManager
    is given this function, because it knows no names of properties.

    Returns the queues, ``capacity`` with the given changes, and the properties that are not default. A property that
    is not included has its default. Raises RemoteError for a property that does not belong to the queues, has a wrong
    type, or contradicts another.
    """
    from .queue_properties import queue_tree

    values: dict[str, Any] = {}
    for name, text in given.items():
        known = declared(name) if name.startswith(QUEUE_PREFIX) else None
        if known is None:
            raise _refused_queues(
                f"{name[:200]} is not a property of the queues", f"those properties begin with {QUEUE_PREFIX}"
            )
        try:
            values[name] = from_text(known, text)
        except Refused as error:
            raise _refused_queues(f"{name[:200]} has a wrong value", str(error)) from None
    root, problems = queue_tree({**values, ACL_ENABLE: capacity.acl_enable})
    if problems:
        raise _refused_queues(problems[0].message, problems[0].because, problems[0].hint)
    bounds = {
        one.attribute: values.get(one.name, one.default)
        for one in PROPERTIES_OF[CapacitySchedulerSettings]
        if one.name.startswith(QUEUE_PREFIX)
    }
    changed = replace(capacity, **bounds)
    if wrong := mappings_of(changed.queue_mappings)[1]:
        raise _refused_queues("queue-mappings cannot be read", wrong)
    told = {
        name: text
        for name, text in given.items()
        if name not in PROPERTIES or values[name] != PROPERTIES[name].default
    }
    return root, changed, told


def _refused_queues(message: str, because: str, hint: str = "") -> RemoteError:
    return RemoteError(
        message, because=because, hint=hint or "`yopp config check` lists all", exit_code=EXIT_CONFIGURATION
    )
