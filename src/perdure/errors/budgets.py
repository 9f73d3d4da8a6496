"""What a run may use and what it asks for disagree (B5…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class BudgetError(PerdureError):
    """What a run may use and what it asks for disagree."""


class OverBudget(BudgetError):
    """A call, or a step, would use more than what is left of the run's budget, so the run is held before it.

    The message names the limit, what the call asks for at worst, and what is left: neither spent, nor
    reserved by a call whose outcome is not known. What was recorded so far is kept, and the run goes on as
    soon as a person gives it more.
    """

    code = "B501"
    default_safe = "The call was not made; the run is held and goes on from here."
    default_remedy = "perdure budget RUN --add usd=1 --why ..."


class PriceUnknown(BudgetError):
    """A run with a budget in US dollars was to call a model whose price is not known.

    What it costs could not be counted, so it is not called. The failure is recorded at the call; after the
    price is declared, `perdure retry RUN` makes the call again.
    """

    code = "B502"
    default_safe = "The model was not called."
    default_remedy = (
        "@agent.model(NAME, price=Price(INPUT, OUTPUT)), or Agent(prices={NAME: Price(...)}): US dollars per "
        "million tokens"
    )


class BudgetBelowSpent(BudgetError):
    """A budget was to be set below what the run has spent and reserved already."""

    code = "B503"
    default_safe = "The run's budget is as it was."
    default_remedy = "give at least what is spent: perdure budget RUN shows it"


class NoSuchLimit(BudgetError):
    """A budget was to be raised in a kind in which the run has no limit, or by nothing at all."""

    code = "B504"
    default_safe = "The run's budget is as it was."
    default_remedy = "raise a limit that the run has: perdure budget RUN shows them"


class OtherBudget(BudgetError):
    """A run was to be carried on with another budget than the one it was started with.

    A run's limits are recorded with it; no later call, and no other default, replaces them unseen.
    """

    code = "B505"
    default_safe = "The run is as it was, and so is its budget."
    default_remedy = "carry it on without budget=, and raise it: perdure budget RUN --add usd=1 --why ..."


class PartOfAnother(BudgetError):
    """A child's budget was to be raised, and it is a part of its parent's.

    The parent has reserved just this part: with more of it, the family could spend more than it was given.
    """

    code = "B506"
    default_safe = "The child's budget is as it was, and so is its parent's."
    default_remedy = "perdure cancel CHILD: the parent is told, and what the child has not spent comes back"
