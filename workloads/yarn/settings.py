"""Hadoop's settings: properties of several files.

A later property replaces an earlier one of the same name that is not final.  ``${name}`` in a value is replaced by
another property.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler

from defusedxml.common import DefusedXmlException
from defusedxml.sax import parseString

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes
from workloads.setting_effects import Effect, Loss

ValueT = TypeVar("ValueT")

LONGEST_VALUE = 1 << 16
"""Most characters of a value after its variables are replaced."""
MAX_VARIABLES = 20
"""Most replacements of variables in one value, as in Hadoop."""
_VARIABLE = re.compile(r"\$\{([^${}\s]+)\}")


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a file."""

    name: str
    value: str
    final: bool
    where: str


LARGEST_FILE_BYTES = 16 * 2**20
DEEPEST = 64
"""Most levels of elements."""


@dataclass(slots=True)
class Element:
    """One XML element."""

    tag: str
    attributes: dict[str, str]
    line: int
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def child(self, tag: str) -> Element | None:
        """Its last child with this tag."""
        return next((child for child in reversed(self.children) if child.tag == tag), None)


def read_xml(path: Path) -> Element:
    """The root element of a file.

    Raises ConfigError: it cannot be read, is not XML, declares entities, or is too large or nested too deeply.
    """
    raw = read_bytes(path, LARGEST_FILE_BYTES)
    builder = _Builder(path)
    try:
        parseString(raw, builder)
    except SAXParseException as error:
        raise ConfigError(printable(f"{path}:{error.getLineNumber()}: is not XML: {error.getMessage()}")) from None
    except DefusedXmlException:
        raise ConfigError(
            f"{path}: declares entities, which are not allowed: write their text where they are used"
        ) from None
    except (LookupError, ValueError) as error:  # Python does not know the encoding, or the bytes do not match it
        raise ConfigError(printable(f"{path}: is not XML: {error}")) from None
    assert builder.root is not None
    return builder.root


class _Builder(ContentHandler):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._open: list[tuple[Element, list[str]]] = []
        self._locator: Any = None
        self.root: Element | None = None

    def setDocumentLocator(self, locator: Any) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: Any) -> None:
        line = self._locator.getLineNumber()
        if len(self._open) == DEEPEST:
            raise ConfigError(f"{self._path}:{line}: elements are nested more than {DEEPEST} levels deep")
        element = Element(name, dict(attrs.items()), line)
        if self._open:
            self._open[-1][0].children.append(element)
        else:
            self.root = element
        self._open.append((element, []))

    def endElement(self, name: str) -> None:
        element, texts = self._open.pop()
        element.text = "".join(texts).strip()

    def characters(self, content: str) -> None:
        self._open[-1][1].append(content)


class Settings:
    """The properties of some files, read one after the other."""

    def __init__(self) -> None:
        self._properties: dict[str, Property] = {}
        self.losses: list[Loss] = []
        """Properties that another one has replaced, and elements that are not properties."""

    def read(self, path: Path) -> None:
        """Add the properties of a file.  Raises ConfigError: it cannot be read or is not a Hadoop configuration."""
        root = read_xml(path)
        if root.tag != "configuration":
            raise ConfigError(
                f"{path}:{root.line}: begins with <{root.tag}>; a Hadoop file begins with <configuration>"
            )
        for element in root.children:
            if element.tag == "property":
                self._add(_property(path, element))
            else:
                why = "only <property> is read; copy its contents into this file"
                href = element.attributes.get("href", element.text)
                what = printable(f"<{element.tag}> {href[:60]}")
                self.losses.append(Loss(what, f"{path}:{element.line}", why, Effect.DECIDES))

    def _add(self, found: Property) -> None:
        old = self._properties.get(found.name)
        used, unused = (old, found) if old is not None and old.final else (found, old)
        assert used is not None
        self._properties[found.name] = used
        if unused is not None:
            what = printable(f"{unused.name}={unused.value[:60]}")
            self.losses.append(Loss(what, unused.where, "another value of it is used", Effect.NOTHING))

    def __contains__(self, name: str) -> bool:
        return name in self._properties

    def properties(self) -> Iterator[Property]:
        """All properties that are used."""
        return iter(self._properties.values())

    def variables(self) -> set[str]:
        """The names that values have as ``${name}``."""
        return {found[1] for each in self._properties.values() for found in _VARIABLE.finditer(each.value)}

    def text(self, name: str) -> str:
        """The value of a property, with its variables replaced as far as they are known; blank: it is not set."""
        found = self._properties.get(name)
        try:
            return "" if found is None else self._expanded(found.value).strip()
        except ValueError:
            return "" if found is None else found.value

    def where(self, name: str) -> str:
        """File and line of a property; if it is not set, its name."""
        found = self._properties.get(name)
        return name if found is None else f"{found.where}: {name}"

    def take(self, name: str, default: ValueT, parse: Callable[[str], ValueT]) -> ValueT:
        """The value of a property; ``default`` if it is not set or empty.

        Raises ConfigError with the text of a ValueError that ``parse`` raised.
        """
        found = self._properties.get(name)
        if found is None:
            return default
        try:
            text = self._expanded(found.value).strip()
            return parse(text) if text else default
        except ValueError as error:
            raise ConfigError(printable(f"{self.where(name)}: {error}")) from None

    def _expanded(self, value: str) -> str:
        for _ in range(MAX_VARIABLES):
            variable = _VARIABLE.search(value)
            if variable is None:
                return value
            other = self._properties.get(variable[1])
            if other is None:
                raise ValueError(
                    f"{value[:80]!r} uses ${{{variable[1][:80]}}}, which these files do not set; write its value"
                )
            value = value[: variable.start()] + other.value + value[variable.end() :]
            if len(value) > LONGEST_VALUE:
                raise ValueError(f"is longer than {LONGEST_VALUE} characters after its variables are replaced")
        raise ValueError(f"needs more than {MAX_VARIABLES} replacements of variables; write its value")


def _property(path: Path, element: Element) -> Property:
    name, value, final = (element.child(tag) for tag in ("name", "value", "final"))
    if name is None or not name.text:
        raise ConfigError(f"{path}:{element.line}: a property has no name; add <name>")
    told = "" if value is None else value.text
    return Property(name.text, told, final is not None and final.text == "true", f"{path}:{element.line}")


def number(text: str) -> float:
    """A number that is not negative.  Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?f?", text):
        raise ValueError(f"{text[:40]!r} is not a number of 0 or more")
    return float(text.rstrip("f"))


def whole(text: str) -> int:
    """A whole number that is not negative.  Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError(f"{text[:40]!r} is not a whole number of 0 or more")
    return int(text)


def flag(text: str) -> bool:
    """Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text.lower() == "true"


def share(text: str) -> float:
    """A number from 0 to 1.  Raises ValueError."""
    if (value := number(text)) > 1:
        raise ValueError(f"{text[:40]!r} is above 1")
    return value
