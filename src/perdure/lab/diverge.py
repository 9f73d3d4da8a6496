"""Whether a run that is made again is the same run: live by a model that draws its words, and by the engine.

The paper model is `differs`: a model that knows a few words, likes some of them better (Zipf's law), and
draws by a temperature. The experiment runs a small agent whose replies leave it step by step. Each run dies
once, after something of it has left; the engine carries it on from its journal. Then the same run is made
once more, live, as a retry from the start would make it. A real small language model can take the place of
the drawn words, see `perdure.lab.smallmodel`. The same seed gives the same numbers.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

from perdure.agent import Agent, Done, NotDone, current_call
from perdure.host import Runtime
from perdure.lab import smallmodel
from perdure.lab.report import Table, Tick, percent
from perdure.runtime.boundary import set_hook
from perdure.store.memory import MemoryStore
from perdure.testing.clock import MovableClock

STEPS = 5
"""Replies of one run; the figures for one step are those of its first reply."""

TEMPERATURES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
"""Temperatures that are tried, unless the caller says otherwise."""

RUNS = 250
"""Runs at each temperature."""

LOCAL_RUNS = 3
"""Of a real small model, which takes its time."""

VOCABULARY = 100
"""Words that the drawn model knows."""

WORDS = 2
"""Words of one of its replies."""

LEASE_SECONDS = 3600.0
"""Of the moved clock: longer than one life of a run."""


def likings(temperature: float) -> list[float]:
    """How likely each word is, from the best liked one on; they add up to 1.

    By Zipf's law: at temperature 1 the n-th word has a weight of 1/n. Towards 0 only the first is left.
    """
    if temperature <= 0:
        return [1.0] + [0.0] * (VOCABULARY - 1)
    weights = [rank ** (-1 / temperature) for rank in range(1, VOCABULARY + 1)]
    return [weight / sum(weights) for weight in weights]


def differs(temperature: float, steps: int) -> float:
    """The paper model: how likely a run of so many steps, made again, is another one. From 0 to 1.

    Two draws are the same word with the sum of all squared likings; a run is the same only if all are.
    """
    same = sum(liking**2 for liking in likings(temperature))
    return 1 - math.prod([same] * WORDS * steps)


class Speaker(Protocol):
    """A model that draws its replies. A `slow` one computes in a thread."""

    name: str
    slow: bool

    def reply(self, said: Sequence[str], temperature: float, chance: random.Random) -> str:
        """The next reply after those that were `said`; whatever is random in it comes from `chance`."""
        ...


class WordModel:
    """Draws words as the paper model says; which ones it likes depends on what was said before."""

    name = f"{WORDS} of {VOCABULARY} words"
    slow = False

    def reply(self, said: Sequence[str], temperature: float, chance: random.Random) -> str:
        """A few words."""
        context = hashlib.blake2b("\n".join(said).encode(), digest_size=4).hexdigest()
        ranks = chance.choices(range(VOCABULARY), likings(temperature), k=WORDS)
        return " ".join(f"{context}-{rank}" for rank in ranks)


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured at one temperature over `steps` steps: shares of `runs`, from 0 to 1.

    `due` is the paper's figure, None for a model that the paper does not know. `live`: runs that, made
    again, are another run. `engine`: runs that were another one after their process had died.
    """

    model: str
    temperature: float
    steps: int
    runs: int
    due: float | None
    live: float
    engine: float


@dataclass(frozen=True, slots=True)
class Diverge:
    """The result: two rows for each model and temperature, for the first step and for all."""

    seed: int
    rows: tuple[Row, ...]

    name = "diverge"
    title = "Runs that are another run when they are made again"
    caption = (
        "The share of runs that come out different when they are made again, against the model's"
        " temperature, for one step and for five; carried on by perdure it is 0 at every temperature."
    )

    def tables(self) -> list[Table]:
        """Shares by model, temperature and number of steps."""
        heads = ("model", "temperature", "steps", "runs", "formula", "made again live", "carried on")
        rows = [
            (
                row.model,
                f"{row.temperature:g}",
                row.steps,
                row.runs,
                None if row.due is None else percent(row.due),
                percent(row.live),
                percent(row.engine),
            )
            for row in self.rows
        ]
        return [Table(heads, tuple(rows))]

    def document(self) -> dict[str, Any]:
        """The same as plain data: shares from 0 to 1."""
        return {
            "seed": self.seed,
            "rows": [
                {
                    "model": row.model,
                    "temperature": row.temperature,
                    "steps": row.steps,
                    "runs": row.runs,
                    "formula": row.due,
                    "live": row.live,
                    "engine": row.engine,
                }
                for row in self.rows
            ],
        }

    def sentences(self) -> list[str]:
        """What the figures say."""
        drawn = (
            f"The drawn model knows {VOCABULARY} words, likes the n-th of them 1/n as much (Zipf's law),"
            f" and answers with {WORDS}. At temperature 1 one reply in {1 / (1 - differs(1.0, 1)):.0f} comes"
            f" out the same, {STEPS} in a row practically never."
        )
        carried = (
            f"Each run died once, after something of it had left; {sum(row.engine > 0 for row in self.rows)}"
            " of the rows above have a run that said something else afterwards. What was drawn is recorded"
            " before anything leaves."
        )
        cold = (
            "At temperature 0 nothing is drawn, so that a retry looks harmless; but it is only the model"
            " that is the same then, not the world."
        )
        real = [row for row in self.rows if row.due is None and row.steps == 1 and row.temperature > 0]
        if not real:
            missing = f"No real model spoke here, since none is installed; {smallmodel.INSTALL} brings one."
            return [drawn, carried, cold, missing]
        spoke = (
            f"{real[0].model}, a real model that runs on this machine, is another one after its first"
            f" {smallmodel.TOKENS} tokens in {percent(sum(row.live for row in real) / len(real))} of runs"
            f" above temperature 0 ({real[0].runs} at each temperature): real ones know more words."
        )
        return [drawn, carried, cold, spoke]

    def plot(self, axes: Any) -> None:
        """Shares against the temperature: the formula's lines, dots for what was measured."""
        temperatures = [row.temperature for row in self.rows]
        top = max(temperatures)
        ticks = [top * step / 200 for step in range(201)]
        for steps, colour in zip(sorted({row.steps for row in self.rows}), ("C0", "C1"), strict=False):
            word = "step" if steps == 1 else "steps"
            line = [100 * differs(tick, steps) for tick in ticks]
            axes.plot(ticks, line, color=colour, linewidth=1.4, label=f"formula, {steps} {word}")
            for model, mark in zip(dict.fromkeys(row.model for row in self.rows), "oD", strict=False):
                rows = [row for row in self.rows if row.steps == steps and row.model == model]
                axes.plot(
                    [row.temperature for row in rows],
                    [100 * row.live for row in rows],
                    mark,
                    color=colour,
                    markerfacecolor=colour if mark == "o" else "white",
                    markersize=8 if steps == 1 else 5,
                    label=f"{model}, {steps} {word}",
                    clip_on=False,
                    zorder=4,
                )
        axes.plot(
            temperatures,
            [100 * row.engine for row in self.rows],
            "s",
            color="black",
            label="carried on by perdure",
            clip_on=False,
            zorder=5,
        )
        axes.set_xlabel("temperature")
        axes.set_ylabel("runs that come out different (%)")
        axes.set_xlim(0, top * 1.02)
        axes.set_ylim(0, 100)
        axes.set_title("A run made again: live, and from its journal")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


# --------------------------------------------------------------------------------------------- the experiment


class _Died(BaseException):
    """This process is gone."""


@dataclass(slots=True)
class _World:
    """What has left a run, and the step after whose act its process dies."""

    speaker: Speaker
    temperature: float
    chance: random.Random
    told: list[tuple[str, str]] = field(default_factory=list)
    dies_at: int = 0
    dying: bool = False

    def tell(self, key: str, text: str) -> None:
        """Something leaves."""
        self.told.append((key, text))
        self.dying = len(self.told) == self.dies_at


def _author(world: _World) -> Agent[Any, Any, Any]:
    """An agent that asks its model and tells the world, five times."""
    made: Agent[Any, Any, Any] = Agent("author", state=dict, start=lambda goal: {"said": []})

    @made.model("speaker")
    async def speak(said: list[str]) -> str:
        asked = (said, world.temperature, world.chance)
        if world.speaker.slow:
            return await asyncio.to_thread(world.speaker.reply, *asked)
        return world.speaker.reply(*asked)

    @made.tool(effect="irreversible")
    async def tell(number: int, text: str) -> None:
        world.tell(current_call().key, text)

    @tell.reconcile
    async def told(number: int, text: str) -> Done[None] | NotDone:
        return Done(None) if any(key == current_call().key for key, _ in world.told) else NotDone()

    @made.step
    async def step(run: Any) -> None:
        said = run.state["said"]
        text = await speak(said)
        await tell(len(said), text)
        said.append(text)
        if len(said) == STEPS:
            run.finish(said)

    return made


@contextmanager
def _mortal(world: _World) -> Iterator[None]:
    """Within the block everything stops once the world says so, between an act and its receipt."""
    dead = False

    def hook(name: str) -> None:
        nonlocal dead
        if dead or (world.dying and name == "call.acted"):
            dead = True
            raise _Died

    set_hook(hook)
    try:
        yield
    finally:
        set_hook(None)
        world.dying = False


_Told: TypeAlias = tuple[list[str], list[str], list[str]]


async def _one(world: _World, run_id: str) -> _Told:
    """What had left when a run was over that died and was carried on, what it says itself, and what the same
    run says that is made again.
    """
    clock = MovableClock()
    store, made = MemoryStore(clock=clock), _author(world)

    async def life(name: str) -> list[str]:
        async with Runtime(store, [made], clock=clock, lease_seconds=LEASE_SECONDS, check=True) as runtime:
            return list((await runtime.run(made, name, "tell", patience=timedelta(0))).unwrap())

    world.told, world.dies_at = [], 1 + world.chance.randrange(STEPS)
    with _mortal(world), suppress(_Died):
        await life(run_id)
    clock.advance(LEASE_SECONDS + 1)
    said = await life(run_id)
    told = [text for _, text in world.told]
    world.dies_at = 0
    return told, said, await life(f"{run_id}-again")


def speakers(runs: int = RUNS, local_runs: int | None = None) -> list[tuple[Speaker, int]]:
    """Who speaks, and in how many runs at each temperature: the drawn words, and a real small model.

    `local_runs` of the real one; None: a few if it is installed. Raises ExtraMissing if it is asked for and
    is not.
    """
    found: list[tuple[Speaker, int]] = [(WordModel(), runs)]
    if local_runs is None:
        local_runs = LOCAL_RUNS if smallmodel.weights() is not None else 0
    if local_runs:
        found.append((smallmodel.SmallModel(), local_runs))
    return found


def measure(
    seed: int,
    tick: Tick,
    *,
    asked: Sequence[tuple[Speaker, int]] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
) -> Diverge:
    """Run the experiment with each speaker, for so many runs at each temperature."""
    chosen = speakers() if asked is None else asked
    total, done = len(temperatures) * sum(runs for _, runs in chosen), 0
    rows: list[Row] = []
    for speaker, runs in chosen:
        for temperature in temperatures:
            world = _World(speaker, temperature, random.Random(f"{seed} {temperature:g}"))
            found = []
            for number in range(runs):
                found.append(asyncio.run(_one(world, f"r-{number}")))
                done += 1
                tick(f"runs of {speaker.name}", done, total)
            rows += (_row(speaker, temperature, steps, found) for steps in (1, STEPS))
    return Diverge(seed, tuple(rows))


def _row(speaker: Speaker, temperature: float, steps: int, found: Sequence[_Told]) -> Row:
    return Row(
        speaker.name,
        temperature,
        steps,
        len(found),
        differs(temperature, steps) if isinstance(speaker, WordModel) else None,
        live=sum(said[:steps] != again[:steps] for _, said, again in found) / len(found),
        engine=sum(told[:steps] != said[:steps] for told, said, _ in found) / len(found),
    )
