"""What it costs to keep an agent's state: storage models on paper, and on the real stores under SIGKILL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perdure.lab import model
from perdure.lab.report import Table, Tick, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVERY = (5, 20, 50)
"""Intervals of the hybrid, in steps, unless told otherwise."""


@dataclass(frozen=True)
class Paper:
    """One storage model on paper. `every`: of a hybrid; 1 for snapshots, None for the log."""

    name: str
    every: int | None
    cost: model.Cost


@dataclass(frozen=True)
class Storage:
    """The storage models beside each other, over a run of `steps` steps with messages of `message` bytes."""

    steps: int
    message: int
    seed: int
    papers: tuple[Paper, ...]

    name = "storage"
    title = "What it costs to keep an agent's state"
    caption = "Bytes written per step against events replayed at a resume, one point for each storage model."

    def tables(self) -> Sequence[Table]:
        """On paper."""
        rows = [(paper.name, size(paper.cost.written), f"{paper.cost.replayed:.1f}") for paper in self.papers]
        heads = ("storage", "written", "replayed")
        return [Table(heads, tuple(rows), f"on paper: {self.steps} steps of {self.message} bytes")]

    def sentences(self) -> Sequence[str]:
        """What the figures say."""
        whole, log = self.papers[0].cost, self.papers[-1].cost
        times = whole.written / log.written
        return [f"On paper a snapshot of every step writes {times:.0f} times what the log writes."]

    def document(self) -> Mapping[str, Any]:
        """The raw figures."""
        return {"seed": self.seed, **asdict(self)}

    def plot(self, axes: Axes) -> None:
        """The dial."""
        axes.plot(
            [paper.cost.replayed for paper in self.papers],
            [paper.cost.written / self.steps for paper in self.papers],
            "o-",
        )
        axes.set_yscale("log")
        axes.set_xlabel("events replayed at a resume")
        axes.set_ylabel("bytes written per step")


def on_paper(steps: int, message: int, every: Sequence[int]) -> tuple[Paper, ...]:
    """Snapshots, hybrids from the shortest interval to the longest, the log."""
    return (
        Paper("snapshot", 1, model.snapshot(steps, message)),
        *(Paper(f"hybrid, every {k}", k, model.hybrid(steps, k, message)) for k in sorted(set(every))),
        Paper("log", None, model.log(steps, message)),
    )


def measure(
    seed: int,
    tick: Tick,
    *,
    steps: int = 200,
    message: int = 300,
    every: Sequence[int] = EVERY,
    paper: bool = False,
) -> Storage:
    """The paper model for this run."""
    return Storage(steps, message, seed, on_paper(steps, message, every))
