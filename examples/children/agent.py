"""An editor that lets researchers work side by side, each a run of its own, and writes of what they found.

No model and no network: what the researchers find is a table. Run it as it stands:
`python examples/children/agent.py`; then look: `perdure runs`, `perdure show paper-1`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perdure import Agent, Budget, Run
from perdure.errors import ChildFailed

KNOWN = {"springs": ["rain", "snow"], "mills": ["wheels", "stones"]}


@dataclass
class Notes:
    """What a researcher has found."""

    found: list[str] = field(default_factory=list)


researcher = Agent("researcher", state=Notes, goal=str, result=list[str], start=lambda subject: Notes())


@researcher.tool(effect="read")
async def look_up(subject: str, place: int) -> str:
    """One thing that is known of a subject; an empty text where nothing more is."""
    things = KNOWN.get(subject, [])
    return things[place] if place < len(things) else ""


@researcher.step
async def research(run: Run[Notes, str, list[str]]) -> None:
    """One thing a step, until nothing more is known."""
    thing = await look_up(run.goal, len(run.state.found))
    if thing:
        run.state.found.append(thing)
    elif run.state.found:
        run.finish(run.state.found)
    else:
        run.fail(f"nothing is known of {run.goal}")


editor = Agent(
    "editor", state=Notes, goal=str, result=str, start=lambda subject: Notes(), spawns=[researcher]
)


@editor.step
async def edit(run: Run[Notes, str, str]) -> None:
    """Three children at once; one that fails leaves a gap and no more."""

    async def of(subject: str) -> str:
        try:
            found = await run.spawn(researcher, subject, budget=Budget(calls=10))
        except ChildFailed as failed:
            return f"{subject}: {failed.status}"
        return f"{subject}: {', '.join(found)}"

    parts = await run.gather(of("springs"), of("mills"), of("ghosts"))
    run.finish("; ".join(parts))


if __name__ == "__main__":  # kill -9 it anywhere, start it again: nothing is researched twice
    outcome = editor.run_sync("paper-1", "Rivers")
    print(outcome.unwrap())
