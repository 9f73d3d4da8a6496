"""An agent that never spends more than it was given: before the call that would, it is held for a person.

A scripted model writes chapters, with a price and a usage as a real one has. Run it as it stands:
`python examples/budget/agent.py`; then look: `perdure budget essay-1`, `perdure show essay-1`.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import Any

from perdure import Agent, Budget, Held, Price, Run, Runtime

CHAPTERS = ("springs", "meanders", "mills", "floods", "the sea")


@dataclass
class Essay:
    """What has been written."""

    chapters: list[str] = field(default_factory=list)


writer = Agent(
    "writer",
    state=Essay,
    goal=str,
    result=str,
    start=lambda subject: Essay(),
    budget=Budget(usd=0.025, steps=20),
    prices={"scribe-1": Price(input=2.0, output=8.0)},
)


@writer.model("scribe-1", max_output=1_000)
async def write(subject: str, chapter: str, so_far: list[str]) -> dict[str, Any]:
    """A chapter, and what it cost: here a script, elsewhere a client's reply."""
    text = f"On {chapter}."
    return {"content": text, "usage": {"input_tokens": 40 + 10 * len(so_far), "output_tokens": 800}}


@writer.step
async def step(run: Run[Essay]) -> None:
    """One chapter a step."""
    chapters = run.state.chapters
    reply = await write(run.goal, CHAPTERS[len(chapters)], chapters)
    chapters.append(reply["content"])
    if len(chapters) == len(CHAPTERS):
        run.finish(" ".join(chapters))


async def main() -> None:
    """Write until the money is gone; a person adds some; write the rest."""
    async with Runtime(agents=[writer]) as runtime:
        outcome = await runtime.run(writer, "essay-1", "Rivers")
        while isinstance(outcome, Held):
            print(f"held: {outcome.detail}", file=sys.stderr)
            await runtime.raise_budget("essay-1", by="ana", why="the rest is worth it", usd=0.02)
            outcome = await runtime.run(writer, "essay-1", "Rivers")
        print(outcome.unwrap())


if __name__ == "__main__":
    asyncio.run(main())
