"""Which line of the user's step asks for something, for messages: found in the frames that are running now.

Knows frames, never runs or calls. Costs nothing until somebody asks.
"""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any

_HERE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_OTHERS = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_LOOPS = ("asyncio.events", "asyncio.base_events", "asyncio.runners")
"""Modules below which a frame belongs to whoever runs the loop, not to the task."""


def line_of_step(step: asyncio.Task[Any] | None) -> str:
    """`file:line` of the user's code that is asking now; empty if there is none.

    A branch that runs nothing of the user's (one tool of several) is named by the line at which the task of
    the `step` itself waits for it.
    """
    return _line(_running()) or _line(_awaiting(step))


def line_of_error(error: BaseException) -> str:
    """`file:line` of the innermost frame of the user's own files, else of whatever is not perdure's; empty if
    there is none.
    """
    places = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(_HERE)]
    own = [one for one in places if not one.filename.startswith((*_OTHERS, "<frozen"))]
    return next((f"{one.filename}:{one.lineno}" for one in reversed(own or places)), "")


def line_of_frame(frame: FrameType | None, *, only: bool = False) -> str:
    """`file:line` of the user's code at which a thread stands; empty if there is none.

    `only`: of this very frame, not of what called it.
    """
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = None if only else frame.f_back
    return _line(iter(frames))


def _line(frames: Iterator[FrameType]) -> str:
    """The innermost frame of the user's own files, else of an installed package."""
    theirs = ""
    for frame in frames:
        file = frame.f_code.co_filename
        if file.startswith((_HERE, "<frozen")):
            continue
        place = f"{file}:{frame.f_lineno}"
        if not file.startswith(_OTHERS):
            return place
        if f"{os.sep}asyncio{os.sep}" not in file:
            theirs = theirs or place
    return theirs


def _running() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") not in _LOOPS:
        yield frame
        frame = frame.f_back


def _awaiting(task: asyncio.Task[Any] | None) -> Iterator[FrameType]:
    """The frames of a task that waits, innermost first."""
    frames: list[FrameType] = []
    waits: Any = None if task is None or task is asyncio.current_task() else task.get_coro()
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        frames.append(frame)
        waits = waits.cr_await
    return reversed(frames)
