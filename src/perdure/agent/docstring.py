"""What a docstring tells a model: the text, and one line for each parameter.

Understands the three usual styles (`Args:` with indented names, `:param name:`, and underlined `Parameters`).
Knows nothing of types; a docstring in no known style is taken whole as the text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection

from msgspec import Struct

_HEADINGS = re.compile(
    r"(args|arguments|parameters|params|returns?|yields?|raises|examples?|notes?|warnings?|see also"
    r"|references|attributes):?",
    re.IGNORECASE,
)
_PARAMETER_HEADINGS = re.compile(r"(args|arguments|parameters|params):?", re.IGNORECASE)
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)(?:\s*\([^)]*\))?\s*:\s*(?P<text>.*)")
_FIELD = re.compile(r":param\s+(?:[^:]*\s)?(?P<name>\w+)\s*:\s*(?P<text>.*)")
_OTHER_FIELD = re.compile(r":(type|rtype|returns?|raises?|yields?)\b[^:]*:")
_UNDERLINE = re.compile(r"-{3,}")


class Told(Struct, frozen=True):
    """A docstring taken apart: the text without its parameter section, and the parameters' descriptions."""

    text: str
    parameters: dict[str, str]


def read_docstring(docstring: str | None, names: Collection[str]) -> Told:
    """Take a docstring apart. Only the given parameter names are looked for."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    kept: list[str] = []
    found: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        end = _section_end(lines, at)
        if _PARAMETER_HEADINGS.fullmatch(line) and end > at + 1:
            found.update(_entries(lines[at + 1 : end], names))
            at = end
        elif match := _FIELD.fullmatch(line):
            end = _indented_end(lines, at + 1)
            if match["name"] in names:
                found[match["name"]] = _join([match["text"], *lines[at + 1 : end]])
            at = end
        elif _OTHER_FIELD.match(line):
            at = _indented_end(lines, at + 1)
        else:
            kept.append(lines[at])
            at += 1
    return Told(re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), found)


def _section_end(lines: list[str], start: int) -> int:
    """Where the section headed by line `start` ends: at the next heading, or where the indent ends."""
    if start + 1 < len(lines) and _UNDERLINE.fullmatch(lines[start + 1].strip()):
        for at in range(start + 2, len(lines) - 1):
            if _HEADINGS.fullmatch(lines[at].strip()) and _UNDERLINE.fullmatch(lines[at + 1].strip()):
                return at
        return len(lines)
    return _indented_end(lines, start + 1)


def _indented_end(lines: list[str], start: int) -> int:
    at = start
    while at < len(lines) and (not lines[at].strip() or lines[at].startswith((" ", "\t"))):
        at += 1
    return at


def _entries(lines: list[str], names: Collection[str]) -> dict[str, str]:
    """The entries of one section: `name: text`, or `name : type` above its indented text."""
    underlined = bool(lines) and _UNDERLINE.fullmatch(lines[0].strip()) is not None
    block = inspect.cleandoc("\n" + "\n".join(lines[1:] if underlined else lines)).splitlines()
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in block:
        if line and not line[0].isspace():
            match = _ENTRY.fullmatch(line) or re.fullmatch(r"\*{0,2}(?P<name>\w+)(?P<text>)", line)
            current = found.setdefault(match["name"], []) if match and match["name"] in names else None
            if current is not None and match is not None and not underlined:
                current.append(match["text"])
        elif current is not None:
            current.append(line)
    return {name: text for name, parts in found.items() if (text := _join(parts))}


def _join(parts: list[str]) -> str:
    return " ".join(part.strip() for part in parts if part.strip())
