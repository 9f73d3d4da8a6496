"""An old state under new code: how it fails without a chain of migrations, how it goes on with one.

A clerk pays three instalments, one in each step, and pauses before or after each. Its state has had three
shapes: version 2 gave a field another name, version 3 gave one another unit (dollars became cents: the same
name, the same type). Runs are begun under one version, stopped after some payments, and carried on by code of
another. Beside them stands a checkpoint written by hand, as JSON that today's code reads. The ledger tells
whether what was paid is right. The same seed gives the same numbers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from perdure.agent import Agent, Held, Waiting
from perdure.errors import PerdureError, RunHeld
from perdure.host import Runtime
from perdure.lab.report import Cell, Table, Tick, percent
from perdure.store.memory import MemoryStore
from perdure.testing.clock import MovableClock

RUNS = 25
"""Runs of each case."""

INSTALMENTS = 3
"""Payments of one run."""

DOLLARS = (5, 12, 80)
"""What one instalment may come to."""

PAUSE = timedelta(hours=1)
"""Between two payments."""

RUN = "instalments"
"""The run of a trial."""

NEWEST = 3
"""Version of the state: 1 has `left` and `amount`, 2 calls it `remaining`, 3 keeps the amount in cents."""


@dataclass
class One:
    """The state of version 1: instalments left, and what each comes to, in dollars."""

    left: int
    amount: int


@dataclass
class Two:
    """Version 2: another name."""

    remaining: int
    amount: int


@dataclass
class Three:
    """Version 3: the amount is in cents. Neither its name nor its type has changed."""

    remaining: int
    amount: int


SHAPES: dict[int, type[Any]] = {1: One, 2: Two, 3: Three}
"""The state of each version."""


def renamed(old: dict[str, Any]) -> dict[str, Any]:
    """From version 1 to 2."""
    return {"remaining": old["left"], "amount": old["amount"]}


def in_cents(old: dict[str, Any]) -> dict[str, Any]:
    """From version 2 to 3."""
    return {**old, "amount": 100 * old["amount"]}


def broken(old: dict[str, Any]) -> dict[str, Any]:
    """From version 2 to 3, as somebody wrote it who had another version 2 in mind."""
    return {**old, "amount": 100 * old["price"]}


@dataclass(frozen=True, slots=True)
class Case:
    """Runs begun under state version `was` and carried on by code of version `now`.

    `how`: "by hand", or how perdure is told: with a `chain`, with `none`, with a `broken` one, or with the
    version `forgotten` (the shape changed, `state_version` did not).
    """

    name: str
    was: int
    now: int
    how: str


CASES = (
    Case("checkpoint by hand", 1, 3, "by hand"),
    Case("checkpoint by hand", 2, 3, "by hand"),
    Case("the version was not raised", 1, 3, "forgotten"),
    Case("the version was not raised", 2, 3, "forgotten"),
    Case("no chain", 1, 3, "none"),
    Case("no chain", 2, 3, "none"),
    Case("a migration that raises", 1, 3, "broken"),
    Case("a chain", 1, 3, "chain"),
    Case("a chain", 2, 3, "chain"),
    Case("newer than the code", 3, 1, "none"),
)
"""What is tried, in this order."""


@dataclass(frozen=True, slots=True)
class Row:
    """What became of the runs of one case.

    `right` and `wrong` by the ledger, `stopped` by an error or a refusal (`said`: which). `written`: stopped
    runs of which something was written all the same. `later`: stopped runs that came out right once code
    that fits was there.
    """

    case: Case
    runs: int
    right: int
    wrong: int
    stopped: int
    said: str
    written: int
    later: int


@dataclass(frozen=True, slots=True)
class Migrate:
    """The result: a row for each case."""

    seed: int
    rows: tuple[Row, ...]

    name = "migrate"
    title = "An old state under new code"
    caption = "Bars for each case: runs that came out right, that came out wrong, and that were stopped."

    def tables(self) -> list[Table]:
        """What became of the runs of each case."""
        heads = ("case", "state", "code", "right", "wrong", "stopped", "said", "written to", "right later")
        lines: list[tuple[Cell, ...]] = []
        for row in self.rows:
            shares = (percent(count / row.runs) for count in (row.right, row.wrong, row.stopped))
            more = (
                percent(count / row.stopped) if row.stopped else None for count in (row.written, row.later)
            )
            case = row.case
            lines.append((case.name, f"v{case.was}", f"v{case.now}", *shares, row.said or None, *more))
        return [Table(heads, tuple(lines))]

    def sentences(self) -> list[str]:
        """What the figures say."""
        by_hand = [row for row in self.rows if row.case.how == "by hand"]
        forgotten = [row for row in self.rows if row.case.how == "forgotten"]
        chained = [row for row in self.rows if row.case.how == "chain"]
        refused = [row for row in self.rows if row.case.how in ("none", "broken")]
        by_itself = (
            f"By hand {_share(by_hand, 'wrong')} of the runs paid a wrong sum without a word, where a field"
            " kept its name and its type and changed its unit; the others stopped with an error."
        )
        careless = (
            f"Under perdure the same happens to {_share(forgotten, 'wrong')} if the version is not raised and"
            " the shape is the same; where an open step had paid already, its recorded call no longer matches"
            " and the run is held. Another shape is stopped untouched."
        )
        turned_away = (
            f"Without a chain, with one that raises, or under older code {_share(refused, 'stopped')} are"
            f" stopped before anything happens; {sum(row.written for row in refused)} of them were written"
            f" to, and {_share(refused, 'later')} came out right once code that fits was there."
        )
        carried = f"With a chain {_share(chained, 'right')} come out right."
        return [by_itself, careless, turned_away, carried]

    def document(self) -> dict[str, Any]:
        """The same as counts."""
        return {
            "seed": self.seed,
            "rows": [
                {
                    "case": row.case.name,
                    "state_version": row.case.was,
                    "code_version": row.case.now,
                    "runs": row.runs,
                    "right": row.right,
                    "wrong": row.wrong,
                    "stopped": row.stopped,
                    "said": row.said,
                    "written": row.written,
                    "right_later": row.later,
                }
                for row in self.rows
            ],
        }

    def plot(self, axes: Any) -> None:
        """Bars from the left, the shares of each case."""
        names = [f"{row.case.name}: v{row.case.was} under v{row.case.now}" for row in self.rows]
        left = [0.0] * len(self.rows)
        for counts, colour, word in (
            ([row.right for row in self.rows], "#009E73", "right"),
            ([row.wrong for row in self.rows], "#D55E00", "wrong, without a word"),
            ([row.later for row in self.rows], "#56B4E9", "stopped, right with code that fits"),
            ([row.stopped - row.later for row in self.rows], "#999999", "stopped for good"),
        ):
            shares = [100 * count / row.runs for count, row in zip(counts, self.rows, strict=True)]
            axes.barh(names, shares, left=left, color=colour, height=0.7, label=word)
            left = [before + share for before, share in zip(left, shares, strict=True)]
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 100)
        axes.set_xlabel("runs (%)")
        axes.set_title("What becomes of a run when its code changes")
        axes.legend(loc="upper center", bbox_to_anchor=(0.3, -0.14), ncols=2)


def _share(rows: list[Row], fate: str) -> str:
    return percent(sum(getattr(row, fate) for row in rows) / sum(row.runs for row in rows))


# --------------------------------------------------------------------------------------------- the experiment


class _Ledger:
    """What was paid, in cents."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def right(self, dollars: int) -> bool:
        """Whether every instalment was paid once."""
        return self.paid == [100 * dollars] * INSTALMENTS


def _pay(state: Any, version: int, ledger: Callable[[int], Any]) -> Any:
    """What code of a version does with its state: it pays one instalment."""
    return ledger(state.amount if version == NEWEST else 100 * state.amount)


@dataclass(frozen=True, slots=True)
class _Draw:
    """What chance decides of one run: an instalment, payments under the old code, and when it pauses."""

    dollars: int
    payments: int
    pauses_first: bool


def _clerk(version: int, draw: _Draw, ledger: _Ledger, how: str) -> Agent[Any, Any, Any]:
    shape, dollars = SHAPES[version], draw.dollars
    made: Agent[Any, Any, Any] = Agent(
        "clerk",
        state=shape,
        start=lambda goal: shape(INSTALMENTS, 100 * dollars if version == NEWEST else dollars),
        state_version=1 if how == "forgotten" else version,
    )
    if how in ("chain", "broken"):
        made.migration(1)(renamed)
        made.migration(2)(in_cents if how == "chain" else broken)

    @made.tool(effect="irreversible")
    async def pay(cents: int) -> None:
        ledger.paid.append(cents)

    field = "left" if version == 1 else "remaining"

    @made.step
    async def step(run: Any) -> None:
        left = getattr(run.state, field) - 1
        if draw.pauses_first and left < INSTALMENTS - 1:
            await run.sleep(PAUSE)
        await _pay(run.state, version, pay)
        setattr(run.state, field, left)
        if not left:
            run.finish(len(ledger.paid))
        elif not draw.pauses_first:
            await run.sleep(PAUSE)

    return made


@dataclass(frozen=True, slots=True)
class _Came:
    """What came of one run."""

    fate: str
    said: str = ""
    written: bool = False
    later: bool = False


class _Place:
    """One run: its store, its clock, and what was paid."""

    def __init__(self, draw: _Draw) -> None:
        self.draw, self.ledger, self._clock = draw, _Ledger(), MovableClock()
        self.store = MemoryStore(clock=self._clock)

    async def carry(self, version: int, how: str, upto: int) -> None:
        """A process with code of this version, until so much is paid, or to the end. Raises what stops it."""
        agent = _clerk(version, self.draw, self.ledger, how)
        async with Runtime(self.store, [agent], clock=self._clock) as runtime:
            outcome = await runtime.run(agent, RUN, "pay", patience=timedelta(0))
            if isinstance(outcome, Held):  # people bring back the code that the run was recorded with
                await runtime.retry(RUN, by="ada")
                outcome = await runtime.run(agent, RUN, "pay", patience=timedelta(0))
            while isinstance(outcome, Waiting) and len(self.ledger.paid) < upto:
                self._clock.advance(PAUSE.total_seconds() + 1)
                outcome = await runtime.run(agent, RUN, "pay", patience=timedelta(0))
            self._clock.advance(PAUSE.total_seconds() + 1)
            if upto > INSTALMENTS:
                outcome.unwrap()


async def _one(case: Case, draw: _Draw) -> _Came:
    """One run: so many payments under the old code, the rest under the new."""
    place, whole = _Place(draw), INSTALMENTS + 1
    careless = case.how == "forgotten"
    await place.carry(case.was, "forgotten" if careless else "none", draw.payments)
    before = await place.store.read(RUN)
    try:
        await place.carry(case.now, case.how, whole)
    except PerdureError as error:
        said = f"{error.code} {error.reason}" if isinstance(error, RunHeld) else error.code
        written = await place.store.read(RUN) != before
    else:
        return _Came("right" if place.ledger.right(draw.dollars) else "wrong")
    if careless or case.was > case.now:
        await place.carry(case.was, "forgotten" if careless else "none", whole)
    else:
        await place.carry(NEWEST, "chain", whole)
    return _Came("stopped", said, written, place.ledger.right(draw.dollars))


def _by_hand(case: Case, draw: _Draw) -> _Came:
    """The same with a checkpoint as JSON, which the new code reads as if it had written it."""
    ledger = _Ledger()
    state = SHAPES[case.was](INSTALMENTS, draw.dollars)
    field = "left" if case.was == 1 else "remaining"
    for _ in range(draw.payments):
        _pay(state, case.was, ledger.paid.append)
        setattr(state, field, getattr(state, field) - 1)
    kept = json.dumps(vars(state))
    try:
        state = SHAPES[case.now](**json.loads(kept))
    except TypeError:
        return _Came("stopped", "TypeError")
    while state.remaining:
        _pay(state, case.now, ledger.paid.append)
        state.remaining -= 1
    return _Came("right" if ledger.right(draw.dollars) else "wrong")


def measure(seed: int, tick: Tick, *, runs: int = RUNS) -> Migrate:
    """Run the experiment: `runs` runs of each case, stopped after one payment or two."""
    rows = []
    for number, case in enumerate(CASES):
        chance = random.Random(f"{seed} {number}")
        came = []
        for done in range(runs):
            draw = _Draw(chance.choice(DOLLARS), chance.randrange(1, INSTALMENTS), chance.random() < 0.5)
            with _unheard():
                came.append(_by_hand(case, draw) if case.how == "by hand" else asyncio.run(_one(case, draw)))
            tick("runs", number * runs + done + 1, len(CASES) * runs)
        rows.append(_row(case, came))
    return Migrate(seed, tuple(rows))


def _row(case: Case, came: Sequence[_Came]) -> Row:
    fates = Counter(one.fate for one in came)
    said = ", ".join(sorted({one.said for one in came} - {""}))
    written, later = sum(one.written for one in came), sum(one.later for one in came)
    return Row(case, len(came), fates["right"], fates["wrong"], fates["stopped"], said, written, later)


@contextmanager
def _unheard() -> Iterator[None]:
    """Within the block nobody is told of runs that are not carried on: here they are counted."""
    log = logging.getLogger("perdure.run")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
