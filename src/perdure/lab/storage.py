"""What it costs to keep an agent's state: storage models on paper, and on the real stores under SIGKILL.

Puts `model` and `experiment` side by side, and says from the figures where they differ and why.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from perdure.journal.lingering import LINGER_SECONDS
from perdure.journal.live import PENDING_EVENTS, UNACKED_EVENTS
from perdure.lab import experiment, model, server
from perdure.lab.experiment import INSTALL, STORES, Measured, Plan
from perdure.lab.plot import COLOURS, short
from perdure.lab.report import Cell, Table, Tick, percent, size, span

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EVERY", "KILLS", "STORES", "Paper", "Plan", "Storage", "measure", "on_paper"]

EVERY = (5, 20, 50)
"""Intervals of the hybrid, in steps, unless told otherwise."""

KILLS = 24
"""How often each run dies, unless told otherwise."""

PAGE = 4096
"""Bytes of a page of SQLite."""


_OPTIONAL = {
    "postgres": f"PostgreSQL, as there is none ({server.INSTALL}, or PERDURE_LAB_POSTGRES=URL)",
    "langgraph": f"LangGraph's own saver, which is not installed ({INSTALL})",
}


@dataclass(frozen=True)
class Paper:
    """One storage model on paper. `keep`: snapshot, every K, log."""

    keep: str
    cost: model.Cost


@dataclass(frozen=True)
class Storage:
    """The storage models beside each other, over a run of `steps` steps with messages of `message` bytes.

    `skipped`: what was not measured, and why.
    """

    steps: int
    message: int
    seed: int
    papers: tuple[Paper, ...]
    measured: tuple[Measured, ...] = ()
    skipped: tuple[str, ...] = ()

    name = "storage"
    title = "What it costs to keep an agent's state"
    caption = (
        "The dial. Across: events replayed at a resume; up: bytes per step. On paper, and in what is handed"
        " over, snapshots cost far more than the log; what SQLite writes is nearly flat, as it writes whole"
        " pages."
    )

    def tables(self) -> Sequence[Table]:
        """On paper; and measured beside it."""
        run = f"{self.steps} steps, each adding a message of {self.message} bytes"
        papers = Table(
            ("storage", "written", "replayed", "at most"),
            tuple((p.keep, size(p.cost.written), f"{p.cost.replayed:.1f}", p.cost.most) for p in self.papers),
            f"On paper: {run}",
        )
        if not self.measured:
            return [papers]
        kills = len(self.measured[0].at)
        heads = (
            "store",
            "storage",
            "paper",
            "handed over",
            "written",
            "file",
            "replayed",
            "load",
            "calls again",
        )
        rows = tuple(self._row(one) for one in self.measured)
        return [papers, Table(heads, rows, f"Measured: the same run, killed {kills} times and resumed")]

    def _row(self, one: Measured) -> tuple[Cell, ...]:
        paper = self._paper(one)
        keep = one.keep + (" ms" if one.keep.startswith("within") else "")
        survives = bool(one.survives and one.at)
        return (
            one.store + (f", {one.durability}" if one.durability != "step" else ""),
            keep if one.at else f"{keep}, not killed",
            None if paper is None else size(paper.written),
            size(one.handed),
            size(one.written) if one.written else None,
            None if one.file is None else size(one.file),
            f"{one.mean_replayed:.1f}" if survives else None,
            span(statistics.median(one.folded)) if survives else None,
            one.again,
        )

    def _paper(self, one: Measured) -> model.Cost | None:
        return next((paper.cost for paper in self.papers if paper.keep == one.keep), None)

    def _find(
        self, store: str, keep: str, durability: str = "step", *, killed: bool = True
    ) -> Measured | None:
        return next(
            (
                one
                for one in self.measured
                if (one.store, one.keep, one.durability) == (store, keep, durability)
                and bool(one.at) == killed
            ),
            None,
        )

    # -- what it says

    def sentences(self) -> Sequence[str]:
        """Where paper and measurement differ, and why."""
        whole, log = self.papers[0].cost, self.papers[-1].cost
        said = [f"On paper a snapshot of every step writes {whole.written / log.written:.0f} times the log."]
        said += self._of_the_log()
        said += self._of_snapshots()
        said += self._of_pages()
        said += self._of_kills()
        said += self._of_others()
        return [*said, *self.skipped]

    def _of_the_log(self) -> Iterator[str]:
        log = self._find("sqlite", "log")
        if log is None:
            return
        receipts, patches = (log.kinds[kind] for kind in ("call.settled", "step.committed"))
        yield (
            f"Paper has one event a step, of {self.papers[-1].cost.written / self.steps:.0f} bytes. The"
            f" journal has {log.events / self.steps:.2f}: the reply's receipt"
            f" ({receipts[1] / receipts[0]:.0f} bytes) and the step's patch ({patches[1] / patches[0]:.0f}"
            f" bytes), which refers to the reply instead of holding it again; what is handed over comes to"
            f" {log.handed / self.steps:.0f} bytes a step."
        )
        paper = statistics.fmean(log.at)
        yield (
            f"After the same {len(log.at)} steps paper replays {paper:.1f} events and the store replayed"
            f" {log.mean_replayed:.1f}, {log.mean_replayed / paper:.2f} times as many: two events a step,"
            f" and one more for each resume before."
        )
        if len(set(log.replayed)) > 1:
            slope, base = statistics.linear_regression(log.replayed, log.folded)
            yield (
                f"Reading, verifying and folding took {span(max(base, 0.0))}, and {span(max(slope, 0.0))}"
                f" more for each event, on this machine while this was measured."
            )

    def _of_snapshots(self) -> Iterator[str]:
        every, log = self._find("sqlite", "snapshot"), self._find("sqlite", "log")
        if every is None or log is None:
            return
        yield (
            f"The largest snapshot holds a state of {size(every.state_bytes)} in {size(every.snapshot_bytes)}"
            f" ({percent(every.snapshot_bytes / every.state_bytes)}): it is compressed. So a snapshot of"
            f" every step handed over {size(every.handed)} where paper has"
            f" {size(self.papers[0].cost.written)}."
        )
        if log.file and every.file:
            yield (
                f"Only the newest snapshot is kept: with one after each step the file ends at"
                f" {size(every.file)}, with none at {size(log.file)}."
            )
        within = next((one for one in self.measured if one.keep.startswith("within")), None)
        if within is not None and within.folded:
            yield (
                f"Told to resume {within.keep} ms the engine took {within.snapshots} snapshots, and replayed"
                f" {within.mean_replayed:.1f} events on average; loading took"
                f" {span(statistics.median(within.folded))}, reading included."
            )

    def _of_pages(self) -> Iterator[str]:
        log, every = (self._find("sqlite", keep, killed=False) for keep in ("log", "snapshot"))
        if log is None or every is None or not (log.written and every.written):
            return
        yield (
            f"A disk takes whole pages of {PAGE:,} bytes. Not killed, the log's {size(log.handed)} became"
            f" {size(log.written)} written, {log.written / log.handed:.0f} times as much: {log.commits}"
            f" commits of {log.written / log.commits / PAGE:.1f} pages each, in the write-ahead log and, at"
            f" checkpoints, once more in the file."
        )
        paper = self.papers[0].cost.written / self.papers[-1].cost.written
        yield (
            f"So the dial moves less than paper says. From the log to a snapshot of every step it is"
            f" {paper:.0f} times the bytes on paper, {every.handed / log.handed:.0f} times in what is handed"
            f" over, and {every.written / log.written:.1f} times in what is written, of runs that are not"
            f" killed."
        )

    def _of_kills(self) -> Iterator[str]:
        whole, log = self._find("sqlite", "log", killed=False), self._find("sqlite", "log")
        if log is None:
            return
        if whole is not None and whole.written and log.written:
            each = (log.written - whole.written) / len(log.at)
            yield (
                f"A kill and its resume wrote {size(each)} more: opening, bringing the write-ahead log home,"
                " a claim."
            )
        resumed = [seconds for one in self.measured if one.store == "sqlite" for seconds in one.resumed]
        opened = statistics.median(one.opened for one in self.measured if one.store == "sqlite")
        yield (
            f"A new process opened the file in {span(opened)} and made the run's next model call"
            f" {span(statistics.median(resumed))} later (medians of {len(resumed)} resumes, whatever the"
            f" storage)."
        )
        between = sum(place in ("answered", "ended") for place in log.places)
        yield (
            f"Of {len(log.at)} kills {between} struck between a reply and the commit of its step;"
            f" {log.again} model calls were made again."
        )
        loose = next((one for one in self.measured if one.durability == "effects" and one.at), None)
        if loose is not None:
            yield (
                f"With durability `effects`, the default, nothing waits for the disk until something leaves"
                f" the run: {loose.commits} writes instead of {log.commits}, and {loose.again} calls again,"
                f" as a model that takes no time gets ahead of the disk: events gather for"
                f" {span(LINGER_SECONDS)} or until there are {PENDING_EVENTS}, and at most"
                f" {UNACKED_EVENTS:,} are on their way."
            )
        memory = next((one for one in self.measured if not one.survives), None)
        if memory is not None:
            yield (
                f"The memory store keeps nothing of a killed process: {memory.again:,} calls were made again."
            )

    def _of_others(self) -> Iterator[str]:
        base, file = self._find("postgres", "log"), self._find("sqlite", "log")
        if base is not None and file is not None and base.written and file.written and base.file:
            yield (
                f"PostgreSQL wrote {size(base.written)} to its write-ahead log for the log's"
                f" {size(base.handed)}, {base.written / file.written:.2f} times what SQLite wrote to its"
                f" files: it logs changes, and whole pages only when they are first touched after a"
                f" checkpoint. What it writes to its tables later, at checkpoints, is not in that figure;"
                f" they and their indexes grew by {size(base.file)}. Reading, verifying and folding took"
                f" {span(statistics.median(base.folded))}."
            )
        other, ours = self._find("langgraph", "snapshot"), self._find("sqlite", "snapshot")
        if other is None or ours is None or not (other.written and ours.written and other.file and ours.file):
            return
        yield (
            f"LangGraph's saver, given the same run, writes the whole list at each step and keeps every one:"
            f" it was handed {other.handed / ours.handed:.1f} times what perdure hands over for a snapshot of"
            f" every step, wrote {other.written / ours.written:.1f} times as much, and its file is"
            f" {other.file / ours.file:.0f} times as large. It made {other.again} calls again."
        )
        if other.folded and ours.folded:
            yield (
                f"Its last checkpoint was read in {span(statistics.median(other.folded))}, perdure's"
                f" snapshot in {span(statistics.median(ours.folded))}, its digest verified."
            )

    def document(self) -> Mapping[str, Any]:
        """The raw figures."""
        return asdict(self)

    # -- the dial

    def plot(self, axes: Axes) -> None:
        """Bytes per step against events replayed: paper's curve, and what was measured."""
        whole = [k for k in range(1, self.steps) if self.steps % k == 0]  # no interval is left unfinished
        curve = [model.hybrid(self.steps, k, self.message) for k in whole] + [self.papers[-1].cost]
        axes.plot([c.replayed for c in curve], [c.written / self.steps for c in curve], "k-", lw=1)
        marks = [(paper.keep, paper.cost.replayed, paper.cost.written / self.steps) for paper in self.papers]
        axes.plot([m[1] for m in marks], [m[2] for m in marks], "ko", label="on paper (JSON)")
        for keep, replayed, written in marks:
            self._note(axes, keep, replayed, written, "#000000")
        self._lines(
            axes, "sqlite", ("s-", "^-"), COLOURS[:2], ("SQLite: handed over", "SQLite: written to files")
        )
        self._lines(axes, "postgres", ("", "v--"), ("", COLOURS[2]), ("", "PostgreSQL: written to its log"))
        names = ("LangGraph on SQLite: handed over", "LangGraph on SQLite: written")
        self._lines(axes, "langgraph", ("D", "P"), (COLOURS[3], COLOURS[4]), names)
        axes.set_xscale("symlog", linthresh=1)
        axes.set_yscale("log")
        axes.set_xlim(-0.15, None)
        axes.xaxis.set_major_formatter(short)
        axes.yaxis.set_major_formatter(lambda value, _: f"{short(value)}B")
        axes.set_xlabel("events replayed at a resume, on average")
        axes.set_ylabel("bytes per step")
        axes.set_title(f"The dial: {self.steps} steps of {self.message} bytes")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=3)

    def _lines(
        self,
        axes: Axes,
        store: str,
        styles: tuple[str, str],
        colours: Sequence[str],
        labels: tuple[str, str],
    ) -> None:
        """What was handed over and what was written, of the killed runs on one store."""
        found = [one for one in self.measured if (one.store, one.durability) == (store, "step") and one.at]
        found.sort(key=lambda one: one.mean_replayed)
        replayed = [one.mean_replayed for one in found]
        if found and labels[0]:
            handed = [one.handed / self.steps for one in found]
            axes.plot(replayed, handed, styles[0], color=colours[0], label=labels[0])
            for one, height in zip(found, handed, strict=True):
                if store == "sqlite" and one.keep in ("every 5", "log"):
                    self._note(axes, one.keep, one.mean_replayed, height, colours[0], below=True)
        if found and all(one.written for one in found):
            written = [(one.written or 0) / self.steps for one in found]
            axes.plot(replayed, written, styles[1], color=colours[1], label=labels[1])

    @staticmethod
    def _note(axes: Axes, text: str, x: float, y: float, colour: str, *, below: bool = False) -> None:
        offset, side = ((-5, -11), "right") if below else ((5, 6), "left")
        axes.annotate(text, (x, y), offset, textcoords="offset points", fontsize=8, color=colour, ha=side)


def on_paper(steps: int, message: int, every: Sequence[int]) -> tuple[Paper, ...]:
    """Snapshots, hybrids from the shortest interval to the longest, the log."""
    return (
        Paper("snapshot", model.snapshot(steps, message)),
        *(Paper(f"every {k}", model.hybrid(steps, k, message)) for k in sorted(set(every))),
        Paper("log", model.log(steps, message)),
    )


def measure(seed: int, tick: Tick, plan: Plan | None = None, *, paper: bool = False) -> Storage:
    """The paper model, and unless `paper` the same run on the real stores."""
    plan = plan or Plan(200, 300, KILLS, EVERY)
    papers = on_paper(plan.steps, plan.message, plan.every)
    if paper:
        return Storage(plan.steps, plan.message, seed, papers)
    found = experiment.measure(plan, seed, tick)
    asked = set(plan.stores) - {one.store for one in found}
    skipped = tuple(f"Not measured: {what}." for store, what in _OPTIONAL.items() if store in asked)
    return Storage(plan.steps, plan.message, seed, papers, found, skipped)
