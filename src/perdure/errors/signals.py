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


def signal_in(error: BaseException) -> BaseException:
    """The signal that a group of exceptions carries, else the error itself.

    A task group wraps whatever leaves its block, and so also what only unwinds the step.
    """
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            if isinstance(found := signal_in(one), Signal):
                return found
    return error
