"""What a list of runs asks of a row `r`, where both dialects of SQL say it alike: with a ? for each value.

It knows the columns that a `Query` names, and no driver. What an index is made for (whether a run has ended,
whether it asks) is said in each dialect's own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perdure.store.protocol import Query


def words(query: Query) -> Iterator[str]:
    """The words that a row is to have. No row has what cannot be kept as text."""
    yield from (query.prefix, query.agent or "", query.queue or "", query.limit_key or "", *query.tags)


def conditions(query: Query) -> Iterator[tuple[str, Sequence[str | int]]]:
    """Each condition, with its values."""
    for column in ("agent", "queue", "limit_key"):
        if (value := getattr(query, column)) is not None:
            yield f"r.{column} = ?", (value,)
    if query.priority is not None:
        yield "r.priority >= ?", (query.priority,)
    if query.prefix:
        yield "r.run_id >= ? AND r.run_id < ?", (query.prefix, query.prefix + "\U0010ffff")
    if query.before is not None:
        yield "(r.created_at, r.run_id) < (?, ?)", query.before


def parts(query: Query, ended: str, going: str) -> Iterator[tuple[str, Sequence[str | int]]]:
    """The parts of a list, each with an index of its own: a rare status is found among many others.

    `ended` and `going` are how the dialect says that a run has, and has not.
    """
    if not query.statuses:
        yield "1 = 1", ()
        return
    yield f"{going} AND r.status IN ({', '.join('?' * len(query.statuses))})", query.statuses
    if not (query.open_only or query.asks):
        for status in dict.fromkeys(query.statuses):
            yield f"{ended} AND r.status = ?", (status,)
