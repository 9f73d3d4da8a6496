"""A run and today's code, or a run and its caller, disagree (R…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class ResumeError(PerdureError):
    """A run and today's code, or a run and its caller, disagree."""

    default_safe = "The stored run is unchanged."


class Diverged(ResumeError):
    """The recorded calls of the open step do not match what today's code asks for.

    Nothing new was called. If only reads were recorded from the mismatch on, perdure drops that tail by
    itself and goes on; otherwise the run is held, and both sides are shown.
    """

    code = "R201"
    default_remedy = (
        "deploy the code that the run was recorded with, then perdure retry RUN; perdure why RUN has more"
    )


class NotRepeatable(ResumeError):
    """A step did something else when it was replayed from its own record.

    A step must be deterministic between its calls. The usual causes are the wall clock, random numbers, the
    order of a set, and global variables.
    """

    code = "R202"
    default_safe = "The step was not committed; the run is held."
    default_remedy = (
        "use run.now(), run.random(), run.new_id(), or put the outside read into a tool; then "
        "perdure retry RUN"
    )


class SignalSwallowed(ResumeError):
    """The step caught perdure's suspension signal (`except BaseException`, or `return` in `finally`).

    A step that waits unwinds by a signal that must pass through. Its patch was not committed.
    """

    code = "R203"
    default_safe = "The step was not committed; the run is held."
    default_remedy = "catch Exception instead of BaseException, or re-raise; then perdure retry RUN"


class NotServed(ResumeError):
    """No agent of this name and version is served here."""

    code = "R204"
    default_remedy = "start a worker that has the agent: perdure worker MODULE:AGENT"


class OtherGoal(ResumeError):
    """A run of this id exists already, for another goal or another agent."""

    code = "R205"
    default_remedy = "use a new run id, or the goal that this run was started with"


class Poisoned(ResumeError):
    """The run killed or lost its worker several times without any progress."""

    code = "R206"
    default_remedy = "look at the last error with perdure show RUN, mend it, then perdure retry RUN"


class StepFailed(ResumeError):
    """An exception left the step. Its patch was discarded and the run is held."""

    code = "R207"
    default_remedy = (
        "mend the step and perdure retry RUN, or let the step call run.fail(error) if the run should fail"
    )


class RunHeld(ResumeError):
    """The run needs a person: `reason` and `remedies` say why and what they can do."""

    code = "R208"
    default_remedy = "perdure why RUN says what holds it and what you can do"


class RunWaiting(ResumeError):
    """The run waits, so it has no result yet."""

    code = "R209"
    default_remedy = "perdure why RUN tells what it waits for"


class RunFailed(ResumeError):
    """The run ended as failed: the step called run.fail(error)."""

    code = "R210"
    default_remedy = "perdure show RUN tells what happened; start a new run once the cause is mended"


class RunCancelled(ResumeError):
    """The run was cancelled."""

    code = "R211"
    default_remedy = "perdure show RUN tells who asked for it; start a new run to try again"


class RunRetired(ResumeError):
    """The run was ended because no code can carry it on."""

    code = "R212"
    default_remedy = "perdure show RUN tells what it has done; start a new run to try again"


class CodeChanged(ResumeError):
    """The agent's code is no longer what the run last accepted, in a way that a person decides about.

    A tool was removed or changed while a call of it is unknown or a permission for it is open, or a model is
    no longer declared; or the agent's own `on_change` says so. The run is held, `changed`, and tells what
    differs.
    """

    code = "R214"
    default_safe = "Nothing was called; the run is held."
    default_remedy = "perdure release RUN accepts the change; or deploy the code that the run knows"


class NothingToResolve(ResumeError):
    """There is nothing at this call that a person could settle, release or retry."""

    code = "R213"
    default_remedy = "perdure why RUN shows what is open"


class StepHangs(ResumeError):
    """A step came to no call, wait or end for long while it was rehearsed: it computes or waits for ever.

    Between its calls a step only computes. A worker that executed it would stand still with it.
    """

    code = "R220"
    default_safe = "Nothing was called and nothing was written."
    default_remedy = "mend the step where it says; what waits for the outside belongs into a tool"


class NotRetirable(ResumeError):
    """Something is open in the run that retiring would leave unsettled for ever.

    A run is retired without its code and without an act: a call whose outcome nobody knows is settled by a
    person first, children end first, and a run that a worker drives is cancelled instead.
    """

    code = "R221"
    default_remedy = "settle what is open, then perdure retire RUN"


class ForkRefused(ResumeError):
    """The run cannot go on in another way from this point.

    A call that acts was under way there, and nobody knows what became of it: a fork could neither serve it
    nor send it again. Or the run was taking back at this point what it had done, or had ended.
    """

    code = "R230"
    default_safe = "No fork was made; the run is unchanged."
    default_remedy = "fork at an earlier point: perdure show RUN lists them"


class OtherFork(ResumeError):
    """There is a run of this id already, and it is not this fork: another origin, point or change."""

    code = "R231"
    default_remedy = "choose another id, or none: perdure fork RUN@POINT --id NEW"
