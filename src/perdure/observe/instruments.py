"""The metrics: fed by durable events and by the answers of the store, with few and bounded attributes.

No run id, no path, no value of the user's is an attribute: names of agents, tools, models, and words of ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry import metrics as otel
from opentelemetry.metrics import CallbackOptions, Observation

from perdure import codec
from perdure.agent import Call, Tool
from perdure.errors import PerdureError
from perdure.observe.conventions import SCOPE, Name, provider_of
from perdure.runtime.listening import Doing, Driven, Over
from perdure.state import events as e
from perdure.state.record import RunRecord
from perdure.store.protocol import Query, RunRow, Store

log = logging.getLogger("perdure.observe")

NANODOLLARS = 1_000_000_000
"""In which events count money, by the dollar."""

COUNTED_RUNS = 10_000
"""So many open runs are looked at for their reasons; of more, only the counts by status are told."""

PAGE = 1000
"""Rows that are asked for at once."""


class Instruments:
    """Every instrument, and the newest count of open runs."""

    def __init__(self, provider: otel.MeterProvider | None) -> None:
        meter = (otel.get_meter_provider() if provider is None else provider).get_meter(SCOPE)
        self.open: Counter[tuple[str, str]] = Counter()
        self.commit = meter.create_histogram(
            Name.COMMIT_DURATION,
            "s",
            "From handing a batch of events to the store until it is durable, or refused.",
            explicit_bucket_boundaries_advisory=[0.0005 * 2**power for power in range(14)],
        )
        self.attempts = meter.create_counter(Name.CALL_ATTEMPTS, "{attempt}", "Attempts with an outcome.")
        self.retries = meter.create_counter(Name.CALL_RETRIES, "{attempt}", "Attempts after the first one.")
        self.unknown = meter.create_counter(Name.CALL_UNKNOWN, "{call}", "Attempts whose reply never came.")
        self.spend = meter.create_counter(Name.SPEND, "{USD}", "What models cost, if their price is known.")
        self.tokens = meter.create_histogram(
            Name.TOKEN_USAGE,
            "{token}",
            "Tokens of a model call.",
            explicit_bucket_boundaries_advisory=list(Name.TOKEN_BUCKETS),
        )
        self.duration = meter.create_histogram(
            Name.OPERATION_DURATION,
            "s",
            "How long a model call took.",
            explicit_bucket_boundaries_advisory=list(Name.DURATION_BUCKETS),
        )
        self.claims = meter.create_counter(Name.CLAIMS, "{claim}", "Runs that were claimed here.")
        self.lost = meter.create_counter(
            Name.LEASES_LOST, "{lease}", "Leases that were lost while a run was driven."
        )
        self.ended = meter.create_counter(Name.RUNS_ENDED, "{run}", "Runs that have ended.")
        self.held = meter.create_counter(Name.RUNS_HELD, "{hold}", "Times that a run needed a person.")
        meter.create_observable_gauge(
            Name.RUNS_OPEN, [self._observed], "{run}", "Open runs of the store, by status and reason."
        )

    def begun(self, driven: Driven) -> _Counted:
        """A run was claimed."""
        return _Counted(self, driven)

    def _observed(self, options: CallbackOptions) -> Iterable[Observation]:
        return [
            Observation(count, {Name.STATUS: status, Name.HOLD: reason} if reason else {Name.STATUS: status})
            for (status, reason), count in sorted(self.open.items())
        ]


class _Counted:
    """What one run does while it is driven here."""

    def __init__(self, made: Instruments, driven: Driven) -> None:
        self._made = made
        self._driven = driven
        self._agent = {Name.AGENT_NAME: driven.agent.name}
        self._names: dict[str, str] = {}
        for event in driven.opening:
            self._learn(event.body)
        made.claims.add(1, {**self._agent, "perdure.claim.after": "loss" if driven.lost else "release"})

    def _learn(self, body: e.AnyBody) -> None:
        if isinstance(body, e.CallIntended):
            self._names[body.path] = body.head.name
        elif isinstance(body, e.StepCommitted):
            self._names.clear()

    def noted(self, event: e.Event) -> None:
        """Only what is durable counts."""

    def stepping(self, number: int) -> None:
        """Steps are not counted by their tries."""

    def committed(self, seconds: float, refused: bool) -> None:
        """How long it took."""
        self._made.commit.record(seconds, {"perdure.commit.refused": refused})

    def acting(self, call: Call, tool: Tool[..., Any], doing: Doing) -> Over | None:
        """Model calls are timed."""
        if doing != "call" or tool.kind != "model":
            return None
        clock = self._driven.clock
        began = clock.monotonic()
        about = {Name.OPERATION: Name.CHAT, Name.REQUEST_MODEL: tool.model_name}
        about[Name.PROVIDER] = provider_of(tool.model_name)

        def over(error: BaseException | None) -> None:
            told = about if error is None else {**about, Name.ERROR_TYPE: type(error).__qualname__}
            self._made.duration.record(clock.monotonic() - began, told)

        return over

    def left(self, *, lost: bool) -> None:
        """The drive is over."""
        if lost:
            self._made.lost.add(1, self._agent)

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Count it."""
        for event in events:
            self._count(event.body)
            self._learn(event.body)

    def _count(self, body: e.AnyBody) -> None:
        made, agent = self._made, self._agent
        match body:
            case e.CallSettled(head=e.CallHead(name=name)) if name in e.DRAWN:
                pass
            case e.CallSettled(path=path, attempt=attempt, outcome=outcome, usage=usage):
                name = body.head.name if body.head is not None else self._names.get(path, "")
                self._attempted(name, attempt, outcome)
                self._spent(name, usage)
            case e.FactRead(attempt=attempt, head=head):
                self._attempted(head.name, attempt, "done")
            case e.CallUnknown(path=path, cause=cause):
                name = self._names.get(path, "")
                made.unknown.add(1, {**agent, Name.TOOL_NAME: name, Name.CAUSE: cause})
            case e.RunHeld(reason=reason):
                made.held.add(1, {**agent, Name.HOLD: reason})
            case e.RunFinished(status=status):
                made.ended.add(1, {**agent, Name.STATUS: status})
            case _:
                pass

    def _attempted(self, name: str, attempt: int, outcome: str) -> None:
        about = {**self._agent, Name.TOOL_NAME: name}
        self._made.attempts.add(1, {**about, Name.OUTCOME: outcome})
        if attempt > 1:
            self._made.retries.add(1, about)

    def _spent(self, name: str, usage: e.Usage | None) -> None:
        if not usage:
            return
        tool = self._driven.agent.tool_named(name)
        model = name if tool is None else tool.model_name
        about = {Name.OPERATION: Name.CHAT, Name.REQUEST_MODEL: model, Name.PROVIDER: provider_of(model)}
        self._made.tokens.record(usage[0], {**about, Name.TOKEN_TYPE: "input"})
        self._made.tokens.record(usage[1], {**about, Name.TOKEN_TYPE: "output"})
        if len(usage) > 2:
            self._made.spend.add(usage[2] / NANODOLLARS, {**self._agent, Name.REQUEST_MODEL: model})


# ------------------------------------------------------------------------------------------------ open runs


async def count_open(store: Store) -> Counter[tuple[str, str]]:
    """The open runs of a store by status, and held ones by their reason. Raises StoreError."""
    stats = await store.stats()
    found = Counter(
        {(status, ""): count for status, count in stats.runs.items() if status in _OPEN and count}
    )
    held = found.pop(("held", ""), 0)
    if held:
        found.update(await _reasons(store, held))
    return found


_OPEN = frozenset({"ready", "running", "waiting", "held"})


async def _reasons(store: Store, held: int) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    before: tuple[int, str] | None = None
    while found.total() < COUNTED_RUNS:
        page = await store.list(Query(statuses=("held",), limit=PAGE, before=before))
        found.update(("held", _reason(row)) for row in page)
        if len(page) < PAGE:
            return found
        before = (page[-1].created_at, page[-1].run_id)
    found["held", ""] += max(held - found.total(), 0)
    return found


def _reason(row: RunRow) -> str:
    told = codec.decode(row.info) if row.info else {}
    reason = str(told.get("reason", "")) if isinstance(told, dict) else ""
    return reason.split(";", 1)[0][:60]


@asynccontextmanager
async def counted(store: Store, made: Instruments, seconds: float) -> AsyncIterator[None]:
    """Within the block the gauge follows the store."""

    async def follow() -> None:
        while True:
            try:
                made.open = await count_open(store)
            except PerdureError as error:
                log.warning("open runs could not be counted: %s", error.what)
            await asyncio.sleep(seconds)

    following = asyncio.create_task(follow(), name="count open runs")
    try:
        yield
    finally:
        following.cancel()
        await asyncio.wait([following])
        made.open = Counter()
