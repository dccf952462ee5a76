"""Hadoop's ``yarn-site.xml`` and ``mapred-site.xml`` as entries.

Read with expat directly: it knows the line of every element, and costs a tenth of ElementTree to import. A DOCTYPE is
refused, so that no entity declared in the file is ever expanded; ``xi:include`` is refused, not ignored."""

from __future__ import annotations

from xml.parsers import expat

from ..errors import ConfigurationError
from .entries import PropertyEntry, Reading
from .suggest import printable_path

_FIELDS = ("name", "value", "final")


class _SiteReader:
    """Collects ``<property>`` elements; expat calls it."""

    def __init__(self, shown: str) -> None:
        self.reading = Reading()
        self._shown = shown
        self._path: list[str] = []
        self._fields: dict[str, str] = {}
        self._line = 0
        self._text: list[str] = []
        self._first: dict[str, str] = {}
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text.append
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _refused(self, because: str, hint: str = "", line: int = 0) -> ConfigurationError:
        """The document is well-formed, but not a site file."""
        where = f"{self._shown}:{line or self.parser.CurrentLineNumber}"
        return ConfigurationError(f"{where}: not a site file", because=because, hint=hint)

    def _doctype(self, *_: object) -> None:
        raise self._refused("it has a DOCTYPE, which is not supported", "remove the <!DOCTYPE …> declaration")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._path and tag != "configuration":
            raise self._refused(f"its root is <{printable_path(tag)}>, not <configuration>")
        if tag.endswith(":include") or tag == "include":
            hint = "give the included file with --conf, before this one"
            raise self._refused("<xi:include> is not followed", hint)
        self._path.append(tag)
        if tag == "property":
            self._line = self.parser.CurrentLineNumber
            self._fields = {key: text for key, text in attributes.items() if key in _FIELDS}
        self._text.clear()

    def _end(self, tag: str) -> None:
        inside = self._path[-2:-1] == ["property"]
        self._path.pop()
        if inside and tag in _FIELDS:
            self._fields[tag] = "".join(self._text)
        elif tag == "property":
            self._add()
        self._text.clear()

    def _add(self) -> None:
        name = self._fields.get("name", "").strip()
        if not name:
            raise self._refused("a <property> has no <name>", line=self._line)
        origin = f"{self._shown}:{self._line}"
        if "value" not in self._fields:
            # Hadoop ignores such a property without a message.
            self.reading.warnings.append(f"{origin}: {printable_path(name)} has no <value> and is ignored")
            return
        if name in self._first:
            self.reading.warnings.append(
                f"{origin}: {printable_path(name)} replaces the value at {self._first[name]}"
            )
        self._first[name] = origin
        final = self._fields.get("final", "").strip().lower() == "true"
        self.reading.entries.append(
            PropertyEntry(name, self._fields["value"].strip(), origin, from_xml=True, final=final)
        )


def read_xml(content: bytes, path: str) -> Reading:
    """The entries of a Hadoop site file. Errors are part of the reading, with their line; no exception is raised."""
    shown = printable_path(path)
    reader = _SiteReader(shown)
    try:
        reader.parser.Parse(content, True)
    except ConfigurationError as refused:
        problem = refused
    except expat.ExpatError as error:
        problem = ConfigurationError(
            f"{shown}:{error.lineno}:{error.offset + 1}: not an XML document",
            because=expat.ErrorString(error.code),
            hint="correct it there; `yopp config check FILE` reads it again",
        )
    except (
        ValueError,
        LookupError,
    ) as error:  # An encoding that Python's codecs do not know, or cannot use here.
        problem = ConfigurationError(
            f"{shown}: not an XML document", because=printable_path(str(error)), hint="save it in UTF-8"
        )
    else:
        return reader.reading
    return Reading(problem)
