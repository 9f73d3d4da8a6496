"""What awaits a call at which a rehearsal ends: its approval, its facts, its principal.

Asks only functions that decide and call nothing: `when=`, `by=`, a plain `authorize`. No fact is read, and
nothing is recorded.
"""

from __future__ import annotations

import inspect

from msgspec import Struct

from perdure.errors import PriceUnknown, Signal
from perdure.runtime import approvals, budgets, premises
from perdure.runtime.execution import Execution, Live
from perdure.runtime.forecast import Stale, Voided
from perdure.runtime.guards import not_permitted
from perdure.runtime.holds import step_error
from perdure.runtime.identity import identity
from perdure.runtime.rights import refusal
from perdure.runtime.wanted import Wanted
from perdure.state import events as e


class Prospects(Struct):
    """What was found. `held`: the hold at which the call would end. `facts`: what is recorded of it at once,
    with nothing asked of the outside; the step is then executed again.
    """

    voided: list[Voided] = []
    stale: list[Stale] = []
    notes: list[str] = []
    facts: list[e.AnyBody] = []
    held: e.RunHeld | None = None


async def at_call(live: Live) -> Prospects:
    """What awaits the call at a place that a rehearsal came to; nothing if it is a wait, or a draw."""
    found = Prospects()
    wanted = live.wanted
    if not isinstance(wanted, Wanted):
        return found
    try:
        await _principal(wanted, found)
        found.stale += [Stale(*one) for one in premises.stale(wanted)]
        _approval(wanted, found)
        await _money(wanted, found)
    except Exception as error:  # noqa: BLE001  (what the agent's own functions raise would end the step)
        found.held = found.held or step_error(wanted.drive.run_id, error, wanted.drive.record)
    return found


def forgotten(execution: Execution) -> list[Voided]:
    """Approvals of calls that the code no longer asks for: nobody would ever use them."""
    places = {live.path for live in execution.lives or ()} | execution.record.calls.keys()
    return [
        Voided(asked.id, f"the code no longer asks for {asked.head.name} at {asked.path}")
        for asked in execution.record.approvals.values()
        if asked.open and asked.path not in places
    ]


async def _principal(wanted: Wanted, found: Prospects) -> None:
    agent = wanted.drive.agent
    if inspect.iscoroutinefunction(agent.authorize_fn):
        found.notes.append(
            f"the agent's authorize function is async, and was not asked about {wanted.tool.name}"
        )
    elif agent.authorize_fn is not None and (why := await refusal(wanted.drive, identity(wanted, 0.0))):
        found.held = not_permitted(wanted, why)


async def _money(wanted: Wanted, found: Prospects) -> None:
    """Whether the call can be paid for, if it is made next: a person may have to be asked first."""
    drive, options = wanted.drive, wanted.tool.options
    if drive.record.ledger is None or found.held is not None or options.approval is not None:
        return
    if (call := wanted.call) is not None and call.standing in ("open", "unknown") and call.effect != "read":
        return  # what it may use is reserved, and its outcome is found out first
    try:
        with drive.purse.active(wanted.path):
            await budgets.afford(wanted)
    except PriceUnknown as error:
        found.notes.append(f"[{error.code}] {error.what}")
    except Signal:
        found.held = next(iter(wanted.execution.holds), None)


def _approval(wanted: Wanted, found: Prospects) -> None:
    """Whether the permission that was asked for is still one for this very call."""
    asked = wanted.execution.record.approvals.get(wanted.path)
    if asked is not None and asked.standing == "denied":
        found.facts.append(approvals.denial(wanted, asked))
    if asked is None or not asked.open:
        return
    wanted.premises = asked.premises  # whether they are still so is asked when the call is made
    approvals.apply_edit(wanted)
    now = wanted.drive.host.store.now()
    if wanted.tool.options.approval is None or not wanted.tool.needs_approval(wanted.first_args):
        found.voided.append(Voided(asked.id, "the call no longer needs an approval"))
    elif why := approvals.drift(wanted, asked):
        found.voided.append(Voided(asked.id, why))
    elif asked.standing == "granted" and now >= asked.until:
        found.voided.append(Voided(asked.id, "the permission was not used in time"))
    elif asked.standing == "pending" and now >= asked.deadline:
        found.voided.append(Voided(asked.id, "nobody has decided in time"))
        found.facts += approvals.expiry_facts(wanted, asked)
