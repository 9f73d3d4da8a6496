"""What people are asked for, read from the rows of runs: permissions, answers, and held runs.

No run is loaded, so that a page costs the same among ten runs and among ten thousand. What a row notes may be
a moment old: whether a decision still counts is told to whoever decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any, Literal, TypeAlias

from perdure.codec import decode
from perdure.runtime.decisions import FUNCTION, ROLE
from perdure.store.protocol import NEVER, RunRow
from perdure.timeline.plain import clean

Asked: TypeAlias = Literal["approval", "answer", "held"]
"""What a person is asked for: to permit a call, to answer a question, to look after a held run."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that a run asks a person for.

    `id` is what its commands name: an approval id, or the run and the place of the question, or the run.
    `who` may decide (empty: anyone). `until`: microseconds, 0 for no end. `taken`: a message has come for the
    run, so that this may be decided already. `commands`: what can be typed; then it is a look.
    """

    kind: Asked
    run_id: str
    agent: str
    id: str
    what: str
    who: str
    until: int
    since: int
    taken: bool
    commands: tuple[str, ...]


def entries(rows: Iterable[RunRow]) -> list[Entry]:
    """What these runs ask for, in their order."""
    return [entry for row in rows for entry in _entries(row)]


def _entries(row: RunRow) -> Iterator[Entry]:
    noted = decode(row.info) if row.info else {}
    if not isinstance(noted, dict):
        return
    if row.status == "held":
        what = ": ".join(clean(str(noted[name])) for name in ("reason", "detail") if noted.get(name))
        yield _entry(row, "held", row.run_id, what or "needs a person", f"perdure why {clean(row.run_id)}")
        return
    for asked in noted.get("approvals", ()):
        made = str(asked["id"])
        args = ", ".join(f"{clean(str(name))}={clean(str(value))}" for name, value in asked["args"].items())
        agreed = [clean(str(name)) for name in asked["agreed"]]
        told = f" (agreed: {', '.join(agreed)}; {asked['quorum']} must)" if asked["quorum"] > 1 else ""
        commands = deciding(made, str(asked["by"]))
        what = f"{clean(str(asked['tool']))}({args}){told}"
        who = _who(str(asked["by"]))
        yield _entry(row, "approval", made, what, *commands, who=who, until=asked["deadline"])
    for asked in noted.get("asks", ()):
        made = f"{row.run_id} {asked['path']}"
        until = NEVER if asked["until"] is None else asked["until"]
        way = f"perdure answer {clean(row.run_id)} ANSWER --question {clean(str(asked['path']))}"
        yield _entry(row, "answer", made, clean(str(asked["question"])), way, until=until)


def _entry(
    row: RunRow,
    kind: Asked,
    made: str,
    what: str,
    *commands: str,
    who: str = "",
    until: int = 0,
) -> Entry:
    until = 0 if until >= NEVER else until
    taken = row.pending > 0
    if taken:  # it may be decided already: what is to be typed first is the look that tells
        commands = (f"perdure why {clean(row.run_id)}",)
    return Entry(kind, row.run_id, row.agent, made, what, who, until, row.updated_at, taken, commands)


def deciding(made: str, by: str) -> tuple[str, str]:
    """What is typed to permit and to forbid what an approval asks for, with what the decision takes."""
    takes = " --app FILE:AGENT" if by == FUNCTION else ""
    if by.startswith(ROLE):
        takes = f" --role {quote(clean(by.removeprefix(ROLE)))}"
    return f"perdure approve {clean(made)}{takes}", f"perdure deny {clean(made)}{takes} --note WHY"


def _who(by: str) -> str:
    if by == FUNCTION:
        return "whom the agent's code admits"
    return f"role {clean(by.removeprefix(ROLE))}" if by.startswith(ROLE) else ""


def entry_document(entry: Entry, stamp: Any) -> dict[str, Any]:
    """An entry for programs; `stamp` writes a moment."""
    return {
        "kind": entry.kind,
        "id": clean(entry.id),
        "run_id": clean(entry.run_id),
        "agent": clean(entry.agent),
        "what": entry.what,
        "who": entry.who,
        "until": stamp(entry.until) if entry.until else None,
        "since": stamp(entry.since),
        "a_message_has_come": entry.taken,
        "commands": list(entry.commands),
    }
