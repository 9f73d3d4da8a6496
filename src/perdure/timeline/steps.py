"""A run's history cut into its steps: what each recorded, up to its commit.

Pure: events in, records out. It knows no agent; whoever executes a step again begins here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from perdure import codec
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import RunRecord


class PastStep(Struct, frozen=True):
    """One step as it was recorded. `record`: the run just before the step's end, with all that it recorded.

    `commit`, `after`: its commit and the run after that; None of a step that was never committed. `ending`:
    status and value bytes, if the step ended the run. `seq`: the last event that belongs to it.
    """

    record: RunRecord
    seq: int
    commit: e.StepCommitted | None = None
    after: RunRecord | None = None
    ending: tuple[str, bytes] | None = None

    @property
    def number(self) -> int:
        """Which step of the run it is, from 1 on."""
        return self.record.step + 1


def past_steps(events: Iterable[e.Event], record: RunRecord | None = None) -> Iterator[PastStep]:
    """Every step of a run, in order, of all its events or of those that follow the `record`.

    The last one may be open: then it has recorded something and was not committed, because the run goes on,
    or because it was ended from outside. Raises Damaged for events that cannot follow each other.
    """
    record = RunRecord() if record is None else record
    before, done = record, None  # a step that was committed just now: the next event may be the run's end
    for event in events:
        before, record = record, fold(record, event, codec.decode)
        if done is not None:
            ended = isinstance(event.body, e.RunFinished) and event.body.status in ("succeeded", "failed")
            yield _with_its_end(done, event) if ended else done
            done = None
        if isinstance(event.body, e.StepCommitted):
            done = PastStep(before, event.seq, event.body, record)
        elif isinstance(event.body, e.RunFinished) and (before.calls or before.waits):
            yield PastStep(before, event.seq)
    if done is not None:
        yield done
    elif record.calls or record.waits:
        yield PastStep(record, record.seq)


def _with_its_end(done: PastStep, event: e.Event) -> PastStep:
    assert isinstance(event.body, e.RunFinished)
    return PastStep(done.record, event.seq, done.commit, done.after, (event.body.status, event.body.value))
