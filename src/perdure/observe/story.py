"""A run as a tree of spans: a fold of its durable events, with the moments at which bodies really began.

The root is the run, below it are steps, below these attempts of calls, waits, permissions, holds and looks
for an outcome. A span is told of when the event that ends it is durable. An event becomes durable once, by
one process, so that no span comes twice, whatever is killed; and since ids follow from places, a span may
name a parent that some other process will tell of. A replay makes no events, and so no spans. What a killed
process had not handed to its exporter is lost: spans are provisional, the journal is the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode

from perdure import codec
from perdure.agent import Call, Tool
from perdure.observe.content import Content, let_out
from perdure.observe.conventions import Name, provider_of
from perdure.observe.ids import span_id, trace_id
from perdure.observe.spans import NANOS, Begin, Spans, enter, leave, stay
from perdure.runtime.listening import Doing, Driven, Over
from perdure.state import events as e
from perdure.state.fork import own_events
from perdure.state.record import RunRecord

NANODOLLARS = 1_000_000_000
"""In which events count money, by the dollar."""


class Stories:
    """Listens to every run of the process."""

    def __init__(self, spans: Spans, content: Content | None) -> None:
        self._spans = spans
        self._content = content

    def begun(self, driven: Driven) -> Story:
        """One for each drive."""
        return Story(self._spans, driven, self._content)


class _Intent(Struct, frozen=True):
    attempt: int
    at: int
    restarts: int
    name: str
    effect: str


class _Body(Struct, eq=False):
    """A body that runs, or has run, here. `ended`: microseconds, 0 while it runs."""

    span: Span
    ended: int = 0
    error: str = ""


class _Open(Struct, eq=False):
    """What durable events say of the open step. `since`: when it was first worked at; 0: not yet."""

    number: int
    since: int = 0
    restarts: int = 0
    notes: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    intents: dict[str, _Intent] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    waits: dict[str, e.Event] = field(default_factory=dict)
    asked: dict[str, e.Event] = field(default_factory=dict)
    stood: dict[str, str] = field(default_factory=dict)
    held: e.Event | None = None


class Story:
    """One run while it is driven here."""

    def __init__(self, spans: Spans, driven: Driven, content: Content | None) -> None:
        self._spans = spans
        self._driven = driven
        self._content = content
        self._run = driven.run_id
        self._trace = trace_id(driven.run_id, driven.record.trace)
        self._name = f"{Name.INVOKE_AGENT} {driven.agent.name}"
        self._about = {
            Name.OPERATION: Name.INVOKE_AGENT,
            Name.AGENT_NAME: driven.agent.name,
            Name.AGENT_VERSION: driven.agent.version,
            Name.CONVERSATION: driven.run_id,
            Name.RUN: driven.run_id,
        }
        self._sampled = spans.sampled(self._trace, self._name, self._about)
        self._root = span_id(driven.run_id, "root")
        self._bodies: dict[tuple[str, int, int], _Body] = {}
        self._last: dict[str, int] = {}  # the newest attempt at a path that has begun here
        self._begun: dict[int, int] = {}  # since when a step is worked at here
        self._asking: dict[str, int] = {}  # since when a hook is asked about a path
        number = driven.record.step + 1
        self._open = _Open(number)
        for event in own_events(driven.opening):  # what a fork has of its origin is in the origin's trace
            if event.seq == driven.record.begun:
                self._open.since = event.at
            else:
                self._fold(event)
        self._step, self._restarts = number, self._open.restarts  # as the engine sees them, ahead of the disk

    # -- what is going on

    def noted(self, event: e.Event) -> None:
        """Where the engine is; it may be ahead of what is durable."""
        match event.body:
            case e.StepCommitted(number=number):
                self._step, self._restarts = number + 1, 0
            case e.StepRestarted():
                self._restarts += 1
            case _:
                pass

    def committed(self, seconds: float, refused: bool) -> None:
        """Traces have no use for it."""

    def stepping(self, number: int) -> None:
        """What the code of the step does by itself lies below its step."""
        self._begin_step()
        stay(self._context(self._step_id(number)))

    def acting(self, call: Call, tool: Tool[..., Any], doing: Doing) -> Over:
        """Make its span the current one, so that what the body tells of itself lies below it."""
        now = self._driven.clock.now()
        self._begin_step()
        if doing == "reconcile":
            self._asking.setdefault(call.path, now)
            token = enter(NonRecordingSpan(self._context(self._reconcile_id(call.path, call.attempt))))
            return lambda error: leave(token)
        key = (call.path, call.attempt, self._restarts)
        before = self._last.get(call.path) or self._open.before.get(call.path)
        attributes = self._of_call(tool.name, call.path, call.attempt, call.effect)
        attributes |= {Name.WORKER: self._driven.worker, Name.EPOCH: self._driven.epoch}
        if self._content is not None:
            name = Name.INPUT_MESSAGES if tool.kind == "model" else Name.TOOL_ARGUMENTS
            attributes |= let_out(self._content, name, f"{tool.name}.arguments", codec.plain(dict(call.args)))
        body = _Body(self._begin_attempt(key, tool.name, now, attributes, before))
        self._bodies[key] = body
        self._last[call.path] = span_id(self._run, "call", *key)
        token = enter(body.span)

        def over(error: BaseException | None) -> None:
            leave(token)
            body.ended = self._driven.clock.now()
            body.error = "" if error is None else type(error).__qualname__

        return over

    def left(self, *, lost: bool) -> None:
        """What was begun here and is not durable is somebody else's to tell."""
        self._bodies.clear()

    # -- what has happened

    def happened(self, events: Sequence[e.Event], record: RunRecord) -> None:
        """Tell what these end."""
        for event in events:
            self._ended(event, record)
            self._fold(event)

    def _fold(self, event: e.Event) -> None:
        """Take into account what is durable."""
        step, body = self._open, event.body
        step.since = step.since or event.at
        match body:
            case e.StepCommitted(number=number):
                self._open = _Open(number + 1)
            case e.StepRestarted():
                step.notes.append(("perdure.step.restarted", event.at, {Name.WHY: _why(body, event.seq)}))
                step.restarts += 1
            case e.RunResumed(worker=worker):
                step.notes.append(
                    ("perdure.run.resumed", event.at, {Name.WORKER: worker, Name.EPOCH: event.epoch})
                )
            case e.CallIntended(path=path, head=head):
                restarts = step.restarts
                step.intents[path] = _Intent(body.attempt, event.at, restarts, head.name, head.effect)
            case e.CallSettled(path=path, attempt=attempt) | e.FactRead(path=path, attempt=attempt):
                step.before[path] = self._attempt_id(path, attempt)
            case e.CallUnknown(path=path) if (intent := step.intents.get(path)) is not None:
                step.before[path] = self._attempt_id(path, intent.attempt)
            case e.WaitOpened(path=path):
                step.waits[path] = event
            case e.ApprovalRequested(id=name):
                step.asked[name] = event
            case e.RunHeld():
                step.held = event
            case e.RunReleased():
                step.held = None
            case e.EffectDecided(path=path, how=how):
                step.stood[path] = how
            case _:
                self._note(event)

    def _note(self, event: e.Event) -> None:
        """What is told as an event of the step's span."""
        notes = self._open.notes
        match event.body:
            case e.CancelRequested():
                notes.append(("perdure.cancel.requested", event.at, {}))
            case e.BudgetRaised():
                notes.append(("perdure.budget.raised", event.at, {}))
            case e.FactChanged(path=path, fact=fact):
                notes.append(("perdure.fact.changed", event.at, {Name.PATH: path, Name.TOOL_NAME: fact}))
            case e.SignalReceived(name=name):
                notes.append(("perdure.signal.received", event.at, {Name.WAIT_NAME: name}))
            case e.CallLate(path=path, outcome=outcome):
                notes.append(("perdure.call.late", event.at, {Name.PATH: path, Name.OUTCOME: outcome}))
            case e.RunMigrated():
                notes.append(("perdure.run.migrated", event.at, {}))
            case _:
                pass

    def _ended(self, event: e.Event, record: RunRecord) -> None:
        """Tell the spans that this event ends."""
        match event.body:
            case e.StepCommitted(number=number):
                self._end_step(event.at, number, committed=True)
            case e.CallSettled(head=e.CallHead(name=name)) if name in e.DRAWN:
                pass
            case e.CallSettled(path=path, attempt=attempt):
                self._settled(event, path, attempt)
            case e.FactRead(path=path, attempt=attempt):
                self._settled(event, path, attempt)
            case e.CallUnknown(path=path) if (intent := self._open.intents.get(path)) is not None:
                self._settled(event, path, intent.attempt)
            case e.CallReconciled():
                self._reconciled(event)
            case e.WaitClosed(path=path) if (opened := self._open.waits.get(path)) is not None:
                self._waited(opened, event)
            case (
                e.ApprovalGranted(id=name)
                | e.ApprovalDenied(id=name)
                | e.ApprovalExpired(id=name)
                | e.ApprovalVoided(id=name)
            ) if (asked := self._open.asked.get(name)) is not None:
                self._decided(asked, event)
            case e.RunHeld():
                self._held(event)
            case e.RunReleased(how=how) if self._open.held is not None:
                self._released(self._open.held, event, how)
            case e.RunFinished():
                self._finished(event, record)
            case _:
                pass

    # -- attempts

    def _settled(self, event: e.Event, path: str, attempt: int) -> None:
        body, intent = event.body, self._open.intents.get(path)
        restarts = self._open.restarts
        if intent is not None and intent.attempt == attempt:
            restarts = intent.restarts
        lived = self._bodies.pop((path, attempt, restarts), None)
        if lived is None:
            head = getattr(body, "head", None)
            name = head.name if head is not None else intent.name if intent is not None else ""
            effect = head.effect if head is not None else intent.effect if intent is not None else "read"
            at = intent.at if intent is not None and intent.attempt == attempt else event.at
            about = self._of_call(name, path, attempt, effect)
            if (how := self._open.stood.get(path)) is not None:
                about[Name.STAND_IN] = how
            before = self._open.before.get(path)
            lived = _Body(self._begin_attempt((path, attempt, restarts), name, at, about, before))
        self._tell_outcome(lived, event)
        lived.span.end((lived.ended or event.at) * NANOS)

    def _tell_outcome(self, lived: _Body, event: e.Event) -> None:
        span, body = lived.span, event.body
        match body:
            case e.CallSettled(outcome=outcome, usage=usage):
                span.set_attribute(Name.OUTCOME, outcome)
                span.set_attributes(_used(usage))
                if outcome != "done":
                    kind = str(codec.decode(body.value).get("type", "")) or lived.error
                    span.set_attribute(Name.ERROR_TYPE, kind)
                    span.set_status(Status(StatusCode.ERROR, kind))
                elif self._content is not None:
                    self._tell_result(span, body)
            case e.FactRead():
                span.set_attribute(Name.OUTCOME, "done")
            case e.CallUnknown(cause=cause):
                span.set_attributes({Name.OUTCOME: "unknown", Name.ERROR_TYPE: lived.error or cause})
                span.add_event("perdure.call.unknown", {Name.CAUSE: cause}, event.at * NANOS)
                span.set_status(Status(StatusCode.ERROR, f"outcome unknown: {cause}"))
            case _:
                pass

    def _tell_result(self, span: Span, body: e.CallSettled) -> None:
        intent = self._open.intents.get(body.path)
        name = body.head.name if body.head is not None else intent.name if intent is not None else ""
        tool = self._driven.agent.tool_named(name)
        model = tool is not None and tool.kind == "model"
        attribute = Name.OUTPUT_MESSAGES if model else Name.TOOL_RESULT
        span.set_attributes(let_out(self._content, attribute, f"{name}.result", codec.decode(body.value)))

    def _begin_attempt(
        self, key: tuple[str, int, int], name: str, at: int, attributes: dict[str, Any], before: int | None
    ) -> Span:
        tool = self._driven.agent.tool_named(name)
        model = tool is not None and tool.kind == "model"
        links = [] if before is None else [(self._context(before), "the attempt before")]
        begin = Begin(
            name=f"{Name.CHAT} {self._model(tool)}"
            if tool is not None and model
            else f"{Name.EXECUTE_TOOL} {name}",
            id=span_id(self._run, "call", *key),
            parent=self._context(self._step_id(_step_of(key[0]) or self._step)),
            at=at,
            kind=SpanKind.CLIENT if model else SpanKind.INTERNAL,
            attributes=attributes,
            links=links,
        )
        return self._spans.begin(self._trace, begin)

    def _of_call(self, name: str, path: str, attempt: int, effect: str) -> dict[str, Any]:
        tool = self._driven.agent.tool_named(name)
        about: dict[str, Any] = {
            Name.RUN: self._run,
            Name.CONVERSATION: self._run,
            Name.AGENT_NAME: self._driven.agent.name,
        }
        about |= {Name.PATH: path, Name.ATTEMPT: attempt, Name.EFFECT: effect}
        if tool is not None and tool.kind == "model":
            model = self._model(tool)
            return about | {
                Name.OPERATION: Name.CHAT,
                Name.REQUEST_MODEL: model,
                Name.PROVIDER: provider_of(model),
            }
        kind = "datastore" if tool is not None and tool.kind == "fact" else "function"
        return about | {
            Name.OPERATION: Name.EXECUTE_TOOL,
            Name.TOOL_NAME: name,
            Name.TOOL_TYPE: kind,
            Name.TOOL_CALL: path,
        }

    def _model(self, tool: Tool[..., Any]) -> str:
        """The model that is called: a fork may have another one."""
        return self._driven.record.models.get(tool.name, tool.model_name)

    def _attempt_id(self, path: str, attempt: int) -> int:
        intent = self._open.intents.get(path)
        known = intent is not None and intent.attempt == attempt
        restarts = intent.restarts if intent is not None and known else self._open.restarts
        return span_id(self._run, "call", path, attempt, restarts)

    def _reconcile_id(self, path: str, attempt: int) -> int:
        return span_id(self._run, "reconcile", path, attempt)

    def _reconciled(self, event: e.Event) -> None:
        body = event.body
        assert isinstance(body, e.CallReconciled)
        intent = self._open.intents.get(body.path)
        attempt, name = (0, "") if intent is None else (intent.attempt, intent.name)
        lost = self._open.before.get(body.path)
        begin = Begin(
            name=f"reconcile {name}".strip(),
            id=self._reconcile_id(body.path, attempt),
            parent=self._context(self._step_id(_step_of(body.path) or self._open.number)),
            at=self._asking.pop(body.path, event.at),
            attributes={
                Name.RUN: self._run,
                Name.PATH: body.path,
                Name.ATTEMPT: attempt,
                Name.TOOL_NAME: name,
                Name.VERDICT: body.verdict,
                Name.VERDICT_BY: body.by if body.by in ("hook", "policy") else "person",
            },
            links=[] if lost is None else [(self._context(lost), "the attempt whose outcome was unknown")],
        )
        self._spans.begin(self._trace, begin).end(event.at * NANOS)

    # -- waits, permissions, holds

    def _waited(self, opened: e.Event, closed: e.Event) -> None:
        wait, end = opened.body, closed.body
        assert isinstance(wait, e.WaitOpened)
        assert isinstance(end, e.WaitClosed)
        about = {
            Name.RUN: self._run,
            Name.PATH: wait.path,
            Name.WAIT_KIND: wait.kind,
            Name.WAIT_ENDED: end.how,
        }
        if wait.kind in ("signal", "child"):  # a question is the user's text
            about[Name.WAIT_NAME] = wait.name
        self._between(f"wait {wait.kind}", _wait_id(self._run, wait, closed.seq), opened.at, closed.at, about)

    def _decided(self, asked: e.Event, end: e.Event) -> None:
        request = asked.body
        assert isinstance(request, e.ApprovalRequested)
        how = e.kind_of(end.body).removeprefix("approval.")
        about = {
            Name.RUN: self._run,
            Name.PATH: request.path,
            Name.APPROVAL: request.id,
            Name.APPROVAL_ENDED: how,
        }
        about[Name.TOOL_NAME] = request.head.name
        span = span_id(self._run, "approval", request.id, end.seq)
        self._between(f"approval {request.head.name}", span, asked.at, end.at, about)

    def _held(self, event: e.Event) -> None:
        """Told at once, since somebody has to do something."""
        body = event.body
        assert isinstance(body, e.RunHeld)
        about = {Name.RUN: self._run, Name.HOLD: body.reason, Name.PATH: body.path}
        span = span_id(self._run, "hold", event.seq)
        self._between(f"hold {body.reason}", span, event.at, event.at, about, error=body.reason)

    def _released(self, held: e.Event, end: e.Event, how: str) -> None:
        body = held.body
        assert isinstance(body, e.RunHeld)
        about = {Name.RUN: self._run, Name.HOLD: body.reason, Name.RELEASED: how}
        span = span_id(self._run, "held", held.seq)
        self._between(f"held {body.reason}", span, held.at, end.at, about)

    def _between(
        self, name: str, span: int, since: int, until: int, about: Mapping[str, Any], *, error: str = ""
    ) -> None:
        """A span of the open step that is known from its end on."""
        parent = self._context(self._step_id(self._open.number))
        begin = Begin(name=name, id=span, parent=parent, at=since, attributes=about)
        made = self._spans.begin(self._trace, begin)
        if error:
            made.set_status(Status(StatusCode.ERROR, error))
        made.end(until * NANOS)

    # -- steps and the run

    def _begin_step(self) -> None:
        self._begun.setdefault(self._step, self._driven.clock.now())

    def _step_id(self, number: int) -> int:
        return span_id(self._run, "step", number)

    def _end_step(self, at: int, number: int, *, committed: bool) -> None:
        step, begun = self._open, self._begun.pop(number, at)
        begin = Begin(
            name=f"step {number}",
            id=self._step_id(number),
            parent=self._context(self._root),
            at=min(step.since or at, begun),
            attributes={Name.RUN: self._run, Name.STEP: number, Name.COMMITTED: committed},
        )
        span = self._spans.begin(self._trace, begin)
        for name, moment, about in step.notes:
            span.add_event(name, about, moment * NANOS)
        span.end(at * NANOS)

    def _finished(self, event: e.Event, record: RunRecord) -> None:
        body = event.body
        assert isinstance(body, e.RunFinished)
        if self._open.since or self._open.number in self._begun:  # a step that will never be committed
            self._end_step(event.at, self._open.number, committed=False)
        spent = record.spent
        about: dict[str, Any] = self._about | {
            Name.STATUS: body.status,
            Name.STEPS: record.step,
            Name.CALLS: spent.calls,
            Name.RESUMES: record.resumes,
        }
        if spent.input_tokens or spent.output_tokens:
            about |= {Name.INPUT_TOKENS: spent.input_tokens, Name.OUTPUT_TOKENS: spent.output_tokens}
        if spent.usd:
            about[Name.COST] = spent.usd / NANODOLLARS
        begin = Begin(
            name=self._name,
            id=self._root,
            parent=self._above(record),
            at=record.started_at,
            attributes=about,
            links=self._forked_from(record),
        )
        span = self._spans.begin(self._trace, begin)
        if body.status == "failed":
            kind = str(codec.decode(body.value).get("type", ""))
            span.set_attribute(Name.ERROR_TYPE, kind)
            span.set_status(Status(StatusCode.ERROR, kind))
        span.end(event.at * NANOS)

    def _above(self, record: RunRecord) -> SpanContext | None:
        """Of a child: its parent's wait for it."""
        if record.parent is None or not record.path:
            return None
        return self._context(span_id(record.parent, "child", record.path))

    def _forked_from(self, record: RunRecord) -> list[tuple[SpanContext, str]]:
        if record.fork is None:
            return []
        trace, root = trace_id(record.fork.run, record.fork.trace), span_id(record.fork.run, "root")
        return [(self._spans.context(trace, root, sampled=self._sampled), "the run it was forked from")]

    def _context(self, span: int) -> SpanContext:
        return self._spans.context(self._trace, span, sampled=self._sampled)


def _wait_id(run_id: str, wait: e.WaitOpened, seq: int) -> int:
    """The span of a wait; of one for a child it follows from the place alone, which the child knows."""
    return (
        span_id(run_id, "child", wait.path)
        if wait.kind == "child"
        else span_id(run_id, "wait", wait.path, seq)
    )


def _used(usage: e.Usage | None) -> dict[str, Any]:
    """Tokens and money, as far as they are known."""
    if not usage:
        return {}
    tokens = {Name.INPUT_TOKENS: usage[0], Name.OUTPUT_TOKENS: usage[1]}
    return tokens if len(usage) < 3 else {**tokens, Name.COST: usage[2] / NANODOLLARS}


def _step_of(path: str) -> int:
    """The step of a call, 0 if its path does not tell."""
    digits = ""
    for character in path:
        if not character.isdigit():
            break
        digits += character
    return int(digits) if digits else 0


def _why(body: e.StepRestarted, seq: int) -> str:
    """Why a step begins anew, in words of our own."""
    if body.fresh:
        return "a person asked for it"
    return "it raised, and is tried again" if body.keep == seq - 1 else "reads are made again"
