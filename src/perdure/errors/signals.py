"""What is not an error: the engine unwinds a step."""

from __future__ import annotations


class Signal(BaseException):
    """Not an error: the engine unwinds a step.

    Derives from BaseException so that user code does not swallow it.
    """


class Suspend(Signal):
    """The step cannot go on now (a wait, a hold, a cancel); it unwinds, and is executed again later."""


class LeaseLost(Signal):
    """Another worker owns the run by now; this process must stop acting on it at once."""
