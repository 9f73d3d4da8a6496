"""The last guard of a call: what it may use at worst must be left of the run's budget (law 7).

Reserved before, settled after. A call that would cross a limit is not made: the run is held, `over-budget`,
and says which limit, what was asked, what is left and how to raise it. Only what is held by calls that are on
their way is waited for. Decides nothing about approvals or premises.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from perdure import codec
from perdure.agent import Price, Tool, Usage
from perdure.clock import SECOND
from perdure.codec.redaction import redacted
from perdure.errors import OverBudget, PriceUnknown, said_by
from perdure.runtime.drive import Drive, Host
from perdure.runtime.execution import Execution
from perdure.runtime.lineage import open_children
from perdure.runtime.wanted import Wanted
from perdure.state import events as e
from perdure.state.amount import Amount, Kind, Limits
from perdure.state.ledger import reserved_of, spent_of
from perdure.state.record import Ledger, RunRecord
from perdure.state.wording import left_of, told
from perdure.store.protocol import NEVER, Claimed

log = logging.getLogger("perdure.run")

_CALLED: tuple[Kind, ...] = ("usd", "tokens", "calls", "micros")
"""What a call may use."""

_MONEY: tuple[Kind, ...] = ("usd", "tokens")
"""What only a model uses."""


async def afford(wanted: Wanted) -> bool:
    """Promise the call what it may use at worst. False: others had to be waited for, ask every guard again.

    Unwinds the branch where it would cross a limit. Raises PriceUnknown. Afterwards `wanted.reserved` is what
    its intent says, None if it needs none of its own.
    """
    drive = wanted.drive
    ledger = drive.record.ledger
    if ledger is None or wanted.undoing:  # it counts, and what is spent must not keep it back
        return True
    limits, purse = ledger.now, drive.purse
    room = room_of(drive, wanted.path)
    free = purse.coming_free(drive.record, wanted.path)
    asked = _worst(wanted, limits, room)
    if asked is None:  # no bound: it runs beside nothing else that holds money or tokens, and takes all
        if (limits.usd is not None and free.usd) or (limits.tokens is not None and free.tokens):
            await purse.change(wanted.path)
            return False
        usd, tokens = (max(room[kind], 1) if kind in room else 0 for kind in _MONEY)
        asked = Amount(usd, tokens, calls=1, micros=1)
    short = [kind for kind in _CALLED if kind in room and asked.of(kind) > max(room[kind], 0)]
    if not short:
        purse.pledge(wanted.path, asked, 1 if wanted.call is None else wanted.call.attempt + 1)
        wanted.reserved = _reserved(wanted, limits, asked)
        return True
    if any(asked.of(kind) > room[kind] + free.of(kind) for kind in short):
        if gives_back(wanted.execution, wanted.path):
            wanted.execution.suspend(wanted.branch, NEVER, "waits for what a child leaves of the budget")
        what = f"call {wanted.path} ({wanted.tool.name})"
        wanted.execution.hold(wanted.branch, _held(drive, short[0], asked, room, wanted.path, what))
    await purse.change(wanted.path)
    return False


def gives_back(execution: Execution, path: str) -> bool:
    """Whether a child, not that of `path`, has a part of the budget, of which something may come back."""
    ledger = execution.record.ledger
    held = () if ledger is None else ledger.reserved
    children = {wait.path for wait in open_children(execution.record) if wait.path in held}
    return bool((children | execution.spawning) - {path})


def step_over(drive: Drive) -> e.RunHeld | None:
    """The hold of a run that may not begin its next step, if it may not."""
    ledger = drive.record.ledger
    if ledger is None:
        return None
    room = room_of(drive, "")
    short: list[Kind] = [kind for kind in ("steps", "micros") if kind in room and room[kind] < 1]
    if not short or any(wait.kind == "child" for wait in drive.record.waits.values()):  # it has begun
        return None
    asked = Amount(steps=1, micros=1)
    return _held(drive, short[0], asked, room, "", f"step {drive.record.step + 1}")


async def carve(drive: Drive, name: str, amount: Amount) -> e.RunHeld | None:
    """Promise `amount` to something that runs beside the calls, a child, under `name`.

    None: promised; the event that reserves it may be written, then `drive.purse.drop(name)`. Else why not.
    """
    ledger = drive.record.ledger
    if ledger is None:
        return None
    while True:
        room = room_of(drive, name)
        short = [kind for kind in room if amount.of(kind) > max(room[kind], 0)]
        if not short:
            drive.purse.pledge(name, amount, 1)
            return None
        free = drive.purse.coming_free(drive.record, name)
        if any(amount.of(kind) > room[kind] + free.of(kind) for kind in short):
            return _held(drive, short[0], amount, room, name, f"child {name}")
        await drive.purse.change(name)
        ledger = drive.record.ledger or ledger


def used(wanted: Wanted, result: Any) -> e.Usage | None:
    """What a call that was answered has used. A reader that fails loses the count, never the reply."""
    tool = wanted.tool
    if tool.kind != "model":
        return None
    try:
        usage = tool.usage_of(result)
    except Exception as error:  # noqa: BLE001  (the reader is the user's)
        log.error("the usage of a reply of %s could not be read: %s", tool.name, type(error).__name__)
        log.debug("its reader raised %s", redacted(said_by(error)))
        usage = None
    if usage is None:
        return _all(wanted)
    price = price_of(wanted.drive, tool)
    tokens = (usage.input_tokens, usage.output_tokens)
    return tokens if price is None else (*tokens, price.cost(usage))


def used_by_failure(wanted: Wanted, error: BaseException) -> e.Usage | None:
    """What a call that failed has used: nothing, unless its reply was lost on the way."""
    return _all(wanted) if _is_lost(error) else None


def _all(wanted: Wanted) -> e.Usage | None:
    """Nobody can tell: all that was reserved counts."""
    return () if wanted.reserved is not None else None


def _is_lost(error: BaseException) -> bool:
    """Whether the other side may have answered, and charged, all the same."""
    return any(
        isinstance(one, TimeoutError | OSError | asyncio.CancelledError)
        or any(word in type(one).__name__ for word in ("Timeout", "Connection"))
        for one in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def price_of(drive: Drive, tool: Tool[..., Any]) -> Price | None:
    """What the model costs: declared with it, or in the agent's table."""
    model = drive.model_of(tool)
    declared = tool.options.price if model == tool.model_name else None
    return declared or drive.agent.prices.get(model)


def room_of(drive: Drive, path: str) -> dict[Kind, int]:
    """What is left of each limited kind, for the call at `path`."""
    record = drive.record
    taken = spent_of(record, drive.host.clock.now()) + reserved_of(record)
    ledger = record.ledger
    return {} if ledger is None else ledger.now.room(taken + drive.purse.pledged(record, path))


def _worst(wanted: Wanted, limits: Limits, room: dict[Kind, int]) -> Amount | None:
    """What a call may use at worst; None if nothing bounds it."""
    tool = wanted.tool
    if tool.kind != "model" or (limits.usd is None and limits.tokens is None):
        return Amount(calls=1, micros=1)
    price = price_of(wanted.drive, tool)
    if price is None and limits.usd is not None:
        model = wanted.drive.model_of(tool)
        raise PriceUnknown(
            f"{tool.name} calls {model}, whose price is not known; the run has a budget in dollars",
            where=tool.source,
            model=model,
        )
    usage = tool.options.reserve or _estimate(wanted)
    if usage is None:
        return None
    cost = 0 if price is None else price.cost(usage)
    return Amount(cost, usage.input_tokens + usage.output_tokens, calls=1, micros=1)


def _estimate(wanted: Wanted) -> Usage | None:
    """At most a token for each byte of the arguments, and the declared output; None if that has no bound."""
    output = wanted.tool.options.max_output
    if output is None:
        return None
    size = sum([len(codec.encode(value, where=f"$.{name}")) for name, value in wanted.args.items()])
    return Usage(size, output)


def _reserved(wanted: Wanted, limits: Limits, asked: Amount) -> Amount | None:
    """What the intent says: money and tokens, if either is limited. The attempt itself counts at once."""
    if wanted.tool.kind == "model" and (limits.usd is not None or limits.tokens is not None):
        return Amount(asked.usd, asked.tokens)
    return None if limits.calls is None else Amount()


def _held(drive: Drive, kind: Kind, asked: Amount, room: dict[Kind, int], path: str, what: str) -> e.RunHeld:
    """The hold: the limit, what was asked, what is left, and how to raise it."""
    ledger = drive.record.ledger
    assert ledger is not None
    limit = ledger.now.of(kind) or 0
    left = max(room[kind], 0)
    more = max(asked.of(kind) - left, 1)
    error = OverBudget(
        f"{what} asks for {told(kind, asked.of(kind))} at worst; {left_of(kind, left, limit)}",
        remedy=f"perdure budget {drive.run_id} --add {_flag(kind, more)} --why ...",
    )
    remedies = (error.remedy, f"perdure cancel {drive.run_id}")
    return e.RunHeld("over-budget", f"[{error.code}] {error.what}", remedies, path)


def _flag(kind: Kind, amount: int) -> str:
    """A round amount that covers `amount`, as `--add` takes it."""
    match kind:
        case "usd":
            cents = -(-amount // 10_000_000)
            return f"usd={cents / 100:g}"
        case "micros":
            return f"seconds={max(-(-amount // 1_000_000), 60)}"
        case _:
            return f"{kind}={amount}"


def ran_on(record: RunRecord, claimed: Claimed, host: Host) -> int:
    """How long the last owner may have gone on executing after its last event, in microseconds.

    Its lease, which it kept extending, tells how long it was alive, to within the lease. 0 if it gave the
    lease back, or nothing limits the run's time.
    """
    ledger = record.ledger
    if ledger is None or ledger.limits.micros is None or not claimed.previous_until:
        return 0
    end = min(host.store.now(), claimed.previous_until)
    begin = record.updated_at
    if ledger.epoch != claimed.row.epoch - 1:  # it wrote nothing: what lies before it was no time of its own
        begin = max(begin, end - int(host.leases.seconds * SECOND))
    return max(end - begin, 0)


def shown(ledger: Ledger, spent: Amount, reserved: Amount) -> dict[str, list[int]]:
    """What lists show of a run's budget: by kind spent, reserved and the limit, in whole numbers."""
    limits = ledger.now
    return {kind: [spent.of(kind), reserved.of(kind), limits.of(kind) or 0] for kind in limits.limited}
