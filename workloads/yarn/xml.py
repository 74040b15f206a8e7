"""XML read safely: no entities, no other files, limits on size and depth; every element knows its line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler

from defusedxml.common import DefusedXmlException
from defusedxml.sax import parseString

from emulator.errors import ConfigError, printable
from emulator.files.yaml_positions import read_bytes

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
