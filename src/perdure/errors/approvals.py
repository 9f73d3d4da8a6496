"""A call needs a person's permission, and it was not given, or a decision cannot be taken (A4…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class ApprovalError(PerdureError):
    """A call needs a person's permission, and it was not given, or a decision cannot be taken."""

    default_safe = "The call was not made."


class ApprovalExpired(ApprovalError):
    """Nobody decided in time: the request's `expires` had passed by the store's clock.

    The call raises this unless its tool declares `Approval(expiry="ask")` or `"hold"`; who decides later
    gets it too. In run.tools the model reads it as the tool's answer.
    """

    code = "A401"
    default_remedy = (
        "call the tool again, or perdure retry RUN if the step did not handle it: both ask again;"
        " give people longer: Approval(expires=...)"
    )


class AlreadyDecided(ApprovalError):
    """Somebody else's decision came first, or the act that was permitted has begun.

    The message says who decided what, and when. `decision` is granted, denied or used.
    """

    code = "A402"
    default_safe = "This decision was not applied; the earlier one counts."
    default_remedy = "perdure audit RUN shows what was decided and done"


class EditRefused(ApprovalError):
    """The edited arguments do not fit the tool: an unknown name, or a value of another type."""

    code = "A403"
    default_safe = "No decision was recorded; the request stays open."
    default_remedy = "give arguments that the message names, of the types that it names"


class ApprovalDenied(ApprovalError):
    """A person forbade this call, or took a permission back before it was used. `by` is who, `note` why.

    The call raises this. In run.tools the model reads it as the tool's answer.
    """

    code = "A404"
    default_remedy = "catch it and do without the act; a call with other arguments asks anew"


class NoSuchApproval(ApprovalError):
    """No run in this store asks, or has asked, for a permission with this id."""

    code = "A405"
    default_safe = "No decision was recorded."
    default_remedy = "perdure inbox lists what is asked for, with ids"


class ApprovalVoided(ApprovalError):
    """What was asked for is no longer what would be done: arguments, tool schema, policy or facts changed.

    The run has asked anew if it still wants the act.
    """

    code = "A406"
    default_safe = "This decision was not applied."
    default_remedy = "perdure inbox shows the new request, if there is one"


class NotYours(ApprovalError):
    """The tool lets others decide: `Approval(by=...)` names their role, or a function that said no."""

    code = "A407"
    default_safe = "No decision was recorded; the request stays open."
    default_remedy = "let someone decide who may; perdure inbox shows the role"


class CodeMissing(ApprovalError):
    """This decision is judged by the agent's own code, which is not at hand here.

    That is so where `Approval(by=...)` is a function, and for edited arguments, whose types are in the code.
    """

    code = "A408"
    default_safe = "No decision was recorded; the request stays open."
    default_remedy = "say the same again with --app FILE:AGENT; in Python: Runtime(store, agents=[agent])"


class LookAgain(ApprovalError):
    """Somebody put other arguments in meanwhile: this decision would permit something unseen."""

    code = "A409"
    default_safe = "This decision was not applied; the request stays open."
    default_remedy = "perdure inbox shows the arguments as they are now; decide again"
