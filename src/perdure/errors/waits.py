"""A run waited for something that did not come, or was sent what it cannot take (A41…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class WaitError(PerdureError):
    """A run waited for something that did not come, or was sent what it cannot take."""

    default_safe = "Nothing was sent to the run."


class WaitExpired(WaitError):
    """Nothing came before the wait's deadline, and the wait declares that this is an error.

    `run.wait` and `run.ask` raise it in the step; it is recorded and comes back the same after a crash.
    """

    code = "A411"
    default_safe = "The wait is over; what comes later is kept for the next wait of that name."
    default_remedy = 'catch it, or declare what an expiry does: default=..., expiry="deny", timeout=FOREVER'


class NoSuchQuestion(WaitError):
    """The run asks no such question, or several and it was not said which one is answered."""

    code = "A412"
    default_remedy = "perdure why RUN lists what the run asks, with the place of each question"


class AlreadyAnswered(WaitError):
    """The question has been answered. The message says by whom."""

    code = "A413"
    default_safe = "The first answer counts; this one changed nothing."
    default_remedy = "perdure show RUN shows the answer; start a new run if it must be another one"


class AnswerLate(WaitError):
    """The answer came after the question's deadline, by the store's clock."""

    code = "A414"
    default_safe = "It was not used: the run goes on as its question declares for an expiry."
    default_remedy = "perdure why RUN shows what the run waits for now; give people longer with expires="


class AnswerUnfit(WaitError):
    """The answer is not one of the choices, or does not fit the type that the question asks for.

    `path` and `expected` tell where and what would fit.
    """

    code = "A415"
    default_safe = "Nothing was sent to the run; the question is still open."
    default_remedy = "answer with what the message names; perdure why RUN shows the question"


class IdReused(WaitError):
    """The sender's id was used for this run before, for something else.

    An id stands for one message: sent again with the same content it is accepted and changes nothing.
    """

    code = "A416"
    default_safe = "The first message counts; this one was not sent."
    default_remedy = "give each message an id of its own, or none"


class SignalUnfit(WaitError):
    """The signal's payload does not fit the type that the run waits for.

    Told to the sender while the run waits for it. A signal that came before its wait raises this at
    `run.wait`, which has taken it.
    """

    code = "A417"
    default_remedy = "send a payload that fits what the message names"
