"""Reading a report as a program would: its tables, its headline figures, and the payload of its timeline."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from html.parser import HTMLParser
from typing import Any

import numpy
from numpy.typing import NDArray

_VOID = frozenset({"meta", "link", "input", "br"})


class Page(HTMLParser):
    """The content of a report, found by the marks that its templates have for this.

    Attributes:
        tables: rows by the table's name; each row has exact values, None where unknown.
        shown: the same, as displayed.
        tiles: exact values of the headline figures, by their labels.
        facts: exact values of the details, by their terms.
        addresses: of everything the page would load.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str | None]]] = {}
        self.shown: dict[str, list[list[str]]] = {}
        self.tiles: dict[str, str | None] = {}
        self.facts: dict[str, str | None] = {}
        self.addresses: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._table = self._tile = self._term = ""
        self.feed(html)
        self.close()
        assert not self._open, "a tag is not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [value for name in ("src", "href") if (value := found.get(name))]
        if tag not in _VOID:
            self._open.append((tag, found))
        self._table = found.get("data-table") or self._table
        self._tile = found.get("data-tile") or self._tile
        rows, shown = self.tables.setdefault(self._table, []), self.shown.setdefault(self._table, [])
        if tag == "tr":
            rows.append([])
            shown.append([])
        if tag == "td":
            rows[-1].append(found.get("data-value"))
            shown[-1].append("")
        if tag == "b" and self._tile:
            self.tiles[self._tile], self._tile = found["data-value"], ""
        if tag == "dd":
            self.facts[self._term] = found["data-value"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tags = [tag for tag, _ in self._open]
        if "td" in tags:
            self.shown[self._table][-1][-1] += data.strip()
        if tags[-1:] == ["dt"]:
            self._term = data


def payloads(html: str) -> list[dict[str, Any]]:
    """The payloads of a report: header and columns together, as the page's scripts see them."""
    found = re.findall(r'<script type="text/plain" id="payload-\d+">([^<]*)</script>', html)
    return [read_payload(gzip.decompress(base64.b64decode(text))) for text in found]


def read_payload(payload: bytes) -> dict[str, Any]:
    """Parse one payload."""
    (length,) = struct.unpack_from("<I", payload)
    header = json.loads(payload[4 : 4 + length])
    columns: dict[str, NDArray[Any]] = {
        name: numpy.frombuffer(payload, "<" + kind, count, 4 + length + at)
        for name, (kind, at, count) in header["columns"].items()
    }
    return {**header, **columns}
