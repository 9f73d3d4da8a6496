"""A line of text in pieces, each with a style: measured, shortened and wrapped as a terminal shows it.

Styles are words such as `bold red`, drawn by click. Escape codes come into being only in `render`, so that
nothing which a store holds can bring its own.
"""

from __future__ import annotations

import textwrap
import unicodedata

import click

Piece = tuple[str, str]
"""Text and its style; an empty style is plain."""


class Text:
    """Pieces of styled text on one line."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self.pieces: list[Piece] = [(text, style)] if text else []

    @classmethod
    def of(cls, *parts: str | Piece | Text) -> Text:
        """One text of several: plain strings, (text, style) pairs and texts."""
        whole = cls()
        for part in parts:
            if isinstance(part, Text):
                whole.pieces += part.pieces
            else:
                text, style = (part, "") if isinstance(part, str) else part
                whole.append(text, style)
        return whole

    def append(self, text: str, style: str = "") -> None:
        """Add a piece at the end."""
        if text:
            self.pieces.append((text, style))

    @property
    def plain(self) -> str:
        """What it says, without styles."""
        return "".join(text for text, _ in self.pieces)

    @property
    def cells(self) -> int:
        """How many columns of a terminal it takes."""
        return width(self.plain)

    def shortened(self, room: int) -> Text:
        """The same, at most `room` columns wide; what is cut off is told by an ellipsis."""
        if self.cells <= room:
            return self
        short, left = Text(), max(room - 1, 0)
        for text, style in self.pieces:
            taken = _fitting(text, left)
            short.append(taken, style)
            left -= width(taken)
            if taken != text:
                break
        short.append("…" if room > 0 else "")
        return short

    def wrapped(self, room: int) -> list[Text]:
        """Lines of at most `room` columns, broken at spaces if it can be, in the first piece's style."""
        if self.cells <= room:
            return [self]
        style = self.pieces[0][1]
        lines = textwrap.wrap(self.plain, room, break_on_hyphens=False) or [""]
        return [Text(line, style) for line in lines]

    def render(self, *, colour: bool) -> str:
        """The line as it goes to the terminal."""
        if not colour:
            return self.plain
        return "".join(_styled(text, style) for text, style in self.pieces)


def width(text: str) -> int:
    """Columns that a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _fitting(text: str, room: int) -> str:
    """The longest beginning that takes at most `room` columns."""
    for end in range(min(len(text), room), -1, -1):
        if width(text[:end]) <= room:
            return text[:end]
    return ""


def _styled(text: str, style: str) -> str:
    if not style:
        return text
    words = style.split()
    colours = [word for word in words if word not in ("bold", "dim")]
    return click.style(
        text, fg=colours[0] if colours else None, bold="bold" in words or None, dim="dim" in words or None
    )
