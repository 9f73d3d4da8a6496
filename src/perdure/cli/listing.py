"""The list of runs as it is drawn in a terminal: how each stands, since when, and why; and what needs
someone.
"""

from __future__ import annotations

from collections.abc import Sequence

from perdure.cli.screen import Row, Screen, age, word
from perdure.store.protocol import Placement, RunRow
from perdure.timeline.amounts import counted, duration
from perdure.timeline.condition import Condition, fork_of
from perdure.timeline.plain import clean
from perdure.timeline.spending import noted_spending, tightest


def draw_runs(found: Sequence[tuple[RunRow, Condition]], now: int, *, more: bool, store: str | None) -> None:
    """Draw the runs, newest first, at `now` by the store's clock; `more`: there are others that match.

    `store`: what `--store` named.
    """
    screen = Screen()
    if not found:
        screen.draw("no runs")
        return
    rows = [_row(row, state, now) for row, state in found]
    heads = ["ID", "AGENT", "STATUS", "SINCE", "EVENTS", "SPENT", "WHY"]
    if any(row.parent for row, _ in found):
        heads.insert(1, "PARENT")
        rows = [
            [line[0], clean(row.parent or ""), *line[1:]] for line, (row, _) in zip(rows, found, strict=True)
        ]
    if any(fork_of(row) for row, _ in found):
        heads.insert(1, "FORK OF")
        rows = [[line[0], clean(fork_of(row)), *line[1:]] for line, (row, _) in zip(rows, found, strict=True)]
    spent = heads.index("SPENT")
    if any(row.placement != Placement() for row, _ in found):
        heads.insert(-1, "PLACE")
        rows = [
            [*line[:-1], _place(row.placement), line[-1]] for line, (row, _) in zip(rows, found, strict=True)
        ]
    if not any(row[spent] for row in rows):  # no run has a budget
        rows = [[*row[:spent], *row[spent + 1 :]] for row in rows]
        heads.remove("SPENT")
    screen.draw_columns(heads, rows)
    screen.draw(age(_summary([state for _, state in found], more)))
    stuck = [row for row, state in found if state.needs in ("person", "worker")]
    if stuck:
        screen.draw_commands([f"perdure why {clean(stuck[0].run_id)}"], store=store)


def _row(row: RunRow, state: Condition, now: int) -> Row:
    since = duration(now - state.since)
    spent = tightest(noted_spending(row))
    return [clean(row.run_id), clean(row.agent), word(state.word), since, str(row.seq), spent, state.because]


def _place(placement: Placement) -> str:
    """Where a run stands, in what is not the default: `night +3 gpu key customer-7`."""
    parts = [clean(placement.queue)] if placement.queue != Placement().queue else []
    if placement.priority:
        parts.append(f"{placement.priority:+d}")
    parts += map(clean, placement.tags)
    if placement.limit_key:
        parts.append(f"key {clean(placement.limit_key)}")
    return " ".join(parts)


def _summary(states: Sequence[Condition], more: bool) -> str:
    people = sum(state.needs == "person" for state in states)
    workers = sum(state.needs == "worker" for state in states)
    parts = [counted(len(states), "run")]
    if more:
        parts.append("there are more (--limit)")
    if people:
        parts.append(f"{people} need{'s' if people == 1 else ''} a person")
    if workers:
        parts.append(f"{workers} need{'s' if workers == 1 else ''} a worker")
    return " · ".join(parts)
