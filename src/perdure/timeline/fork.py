"""A new run that goes on from a point of another one, with one input changed.

The fork's journal begins with a copy of its origin's events up to the point, large values and chain included,
so that it is whole whatever becomes of the origin; `run.forked` says what is changed and what the origin did
afterwards; the receipts of calls that were open there follow. All of it is one `create`: a crash leaves the
whole fork or none. Law 13: the origin is read and never written to. Nothing is sent from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as replaced
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent
from perdure.clock import Clock
from perdure.codec import Shape
from perdure.codec.naming import written
from perdure.codec.sealing import beside, by_schema, unclear
from perdure.errors import BadChange, BadPoint, BudgetBelowSpent, ForkRefused, OtherFork, ShapeMismatch
from perdure.journal import Retold, gathered, history, outline, pruned, retold
from perdure.journal.wall import behind_wall
from perdure.recovery.deploys import RunKey
from perdure.recovery.verdicts import first_seq
from perdure.runtime.birth import trace_of
from perdure.runtime.boundary import reached
from perdure.runtime.lineage import ID_CHARS, Told
from perdure.runtime.manifest import read_manifest
from perdure.runtime.questions import terms_of, words
from perdure.runtime.resolved import fit
from perdure.runtime.rowinfo import row_info
from perdure.runtime.scribe import Scribe
from perdure.runtime.vaults import entered, vault_for_look
from perdure.state import events as e
from perdure.state.amount import KINDS, Limits
from perdure.state.fold import fold, fold_all
from perdure.state.fork import NOTICE, kept, unmatched
from perdure.state.ledger import spent_of
from perdure.state.patch import compare as changes_of
from perdure.state.record import CallRecord, RunRecord, WaitRecord
from perdure.state.wording import told
from perdure.store.protocol import GENESIS, NewRun, RunRow, Store, Stored
from perdure.timeline.aftermath import aftermath, in_order
from perdure.timeline.change import SAME, Change, Changed, changed_state
from perdure.timeline.place import MISSING, parsed, value_at
from perdure.timeline.plain import clean


@dataclass(frozen=True, slots=True)
class OriginalAct:
    """An act that the origin made after the point, or a child that it spawned there and that acts.

    `run_id` and `path` name it, `seq` is the event that began it. `outcome`: done, failed, unknown or
    not_done; `value` its result or error as plain data. An argument too long to be told is left out. `child`:
    the child's run, with `acts` acts of its own. `undone`: it was taken back. `in_fork` says what becomes of
    the same call in the fork: `asked` (held until a person decides), `stands in` (its result is taken and
    nothing is sent) or `made again`.
    """

    run_id: str
    path: str
    name: str
    effect: str
    args: Mapping[str, Any]
    outcome: str
    value: Any
    seq: int
    in_fork: str
    child: str = ""
    acts: int = 0
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """A fork that was made, or with `dry_run` one that would be; `fresh` is False if it was there already.

    `run_id` is the fork's, `at` the point of its `origin`. `changes` tells what differs, `served` the calls
    and waits of the open step whose recorded outcomes are served (path, name), `left` in words what of the
    origin is not inherited, `acts` what the origin did after the point, irreversible first.
    """

    run_id: str
    origin: str
    at: int
    step: int
    effects: e.Effects
    changes: tuple[Changed, ...]
    served: tuple[tuple[str, str], ...]
    left: tuple[str, ...]
    acts: tuple[OriginalAct, ...]
    dry_run: bool
    fresh: bool


class ForkOrder(Struct, frozen=True):
    """What is to be forked: `run_id` at event `at` (None: as late as it can be), changed so, as `new_id`."""

    run_id: str
    at: int | None
    change: Change
    new_id: str
    effects: e.Effects = "ask"
    by: str = ""
    dry_run: bool = False


def fork_id(run_id: str, made: str) -> str:
    """A fork's own id, of its origin's and of one that was made for it."""
    return f"{run_id[: ID_CHARS - 9]}-f{made[-7:]}"


def _trace(past: Retold) -> str:
    """The trace of a run whose events may begin with another one's."""
    own = (event.body.trace for event in reversed(past.later) if isinstance(event.body, _BEGINS))
    return next(own, past.base.trace)


_BEGINS = (e.RunStarted, e.RunForked)
"""With what a run's own trace comes."""


async def fork(store: Store, clock: Clock, order: ForkOrder, agent: Agent[Any, Any, Any] | None) -> Fork:
    """Make the fork, or tell what it would be. `agent`: the run's own, if its code is at hand.

    Raises ForkRefused, OtherFork, BadChange, BadPlace, BadPoint, BudgetBelowSpent, ShapeMismatch,
    NotStorable, Damaged, NewerFormat, NoSuchRun, RunGone.
    """
    vault = await vault_for_look(store, order.run_id)
    with entered(vault):
        return await _forked(store, clock, order, agent, private=vault.made)


async def _forked(
    store: Store, clock: Clock, order: ForkOrder, agent: Agent[Any, Any, Any] | None, *, private: bool
) -> Fork:
    row = await store.row(order.run_id)
    past = await retold(store, order.run_id)
    at = point_of(row, past, order.at)
    record = fold_all(past.base, [event for event in past.later if event.seq <= at], codec.decode)
    _check_point(order.run_id, record)
    after = await aftermath(store, order.run_id, record, [one for one in past.later if one.seq > at])
    acts = in_order((*unmatched(record), *after.acts))
    draft = _Draft(order, record, past.events, agent, private=private)
    draft.settle(after.receipts)
    body = replace(draft.forked(acts, row.seq), origin_trace=_trace(past))
    made = Fork(
        order.new_id,
        order.run_id,
        at,
        record.step,
        order.effects,
        tuple(draft.told),
        tuple((item.path, _named(item)) for item in kept(record, body.given) if item.name not in e.DRAWN),
        tuple(_left(record)),
        tuple(_shown(act, order.effects) for act in acts),
        order.dry_run,
        not order.dry_run,
    )
    if order.dry_run:
        return made
    new = await _new_run(store, order, record, (body, *draft.outcomes), clock.now())
    reached("fork.create")
    await _check_key(store, order)
    there, fresh = await store.create(new)
    reached("fork.created")
    if fresh:
        return made
    await _same(store, there, body, at)
    return Fork(**{name: getattr(made, name) for name in made.__slots__ if name != "fresh"}, fresh=False)


# ------------------------------------------------------------------------------------------- the point


def point_of(row: RunRow, past: Retold, at: int | None) -> int:
    """The event that is meant; None is the last one from which a run can go on.

    Raises BadPoint, ForkRefused, EventsPruned.
    """
    events, floor = past.events, past.base.seq
    name, last = clean(row.run_id), max(events[-1].seq if events else 0, floor)
    ended = last if past.later and isinstance(past.later[-1].body, e.RunFinished) else 0
    ended = ended or (floor if past.base.ended is not None else 0)
    if at is None:
        at = ended - 1 if ended else last
    if not 1 <= at <= last:
        raise BadPoint(f"run {name} has the events 1 to {last}, and no event {at}")
    if at < floor:
        raise pruned(name, at, floor)
    if at == ended:
        way = f"the point before: perdure fork {name}@{at - 1}"
        raise ForkRefused(f"run {name} has ended at event {at}", remedy=way if at > floor else None)
    return at


def _check_point(run_id: str, record: RunRecord) -> None:
    if record.undo is not None:
        raise ForkRefused(f"run {clean(run_id)} was taking back at event {record.seq} what it had done")


# ------------------------------------------------------------------------------------------- the change


class _Draft:
    """`run.forked` in the making: what is changed, checked against the point; `told` has it in words."""

    def __init__(
        self,
        order: ForkOrder,
        record: RunRecord,
        past: Sequence[e.Event],
        agent: Agent[Any, Any, Any] | None,
        *,
        private: bool,
    ) -> None:
        self.order = order
        self.private = private
        self.record = record
        self.past = past
        same = agent is not None and agent.state_version == record.state_version
        self.agent = agent if same else None
        self.told: list[Changed] = []
        self.outcomes: list[e.AnyBody] = []
        self.given: set[str] = set()
        self.models = self._models()

    def settle(self, receipts: Mapping[str, e.AnyBody]) -> None:
        """Calls that were open at the point take the receipts that came later; a model that is changed is
        asked anew, and so is a read without a receipt. Raises ForkRefused for an act without one.
        """
        for path, body in receipts.items():
            if path not in self.order.change.result and self.record.calls[path].name not in self.models:
                self.outcomes.append(body)
                self.given.add(path)
        settled = self.given | set(self.order.change.result)
        for call in self.record.calls.values():
            unknown = call.standing in ("open", "unknown") and call.effect != "read"
            if unknown and call.path not in settled and NOTICE not in call.path:
                raise self._under_way(call)

    def _under_way(self, call: CallRecord) -> ForkRefused:
        run, before = clean(self.order.run_id), max(call.intent - 1, self.record.begun)
        return ForkRefused(
            f"call {call.path} ({clean(call.name)}, {call.effect}) was under way at event {self.record.seq}"
            f" of run {run}, and nothing is known of what became of it",
            remedy=f"let the run find out first: perdure why {run} says how; or fork before it: perdure fork"
            f" {run}@{before}; or say what it came to: perdure fork {run}@{self.record.seq} --result"
            f" {call.path}=JSON",
            path=call.path,
        )

    def forked(self, acts: Sequence[e.OriginAct], seen: int) -> e.RunForked:
        """The event. Afterwards `outcomes` and `given` say what follows it."""
        order, change = self.order, self.order.change
        self._results(change.result)
        goal, state = self._goal(), self.record.state
        if goal and not self.record.step:
            state = self._first_state(change.goal)
        was = state
        state, places = changed_state(state, change.state)
        if change.state or goal:
            self._nothing_recorded("the state" if change.state else "the goal")
        if change.state:
            shape = None if self.agent is None else self.agent.state_shape
            state = self._kept(shape, state, was, "$.state")
        now = [value_at(state, parsed(text)) for text in change.state]
        self.told += [replaced(one, now=value) for one, value in zip(places, now, strict=True)]
        return e.RunForked(
            order.run_id,
            trace_of(order.new_id),
            order.by,
            order.effects,
            goal,
            Scribe({}).ops(changes_of(self.record.state, state, ())),
            tuple(sorted(self.given)),
            tuple(sorted(self.models.items())),
            self._limits(),
            tuple(acts),
            seen,
        )

    def _nothing_recorded(self, what: str) -> None:
        if there := kept(self.record, self.given):
            run, began = clean(self.order.run_id), self.record.begun
            names = ", ".join(f"{item.path} ({clean(_named(item))})" for item in there[:3])
            raise BadChange(
                f"{what} cannot be changed at event {self.record.seq}: step {self.record.step + 1} has"
                f" recorded {names} by then, which may rest on it",
                remedy=f"change it where the step began: perdure fork {run}@{began}; or change a result"
                f" instead: --result {there[-1].path}=JSON",
            )

    def _goal(self) -> bytes:
        """The new goal as value bytes, empty if it stays."""
        goal = self.order.change.goal
        if goal is SAME:
            return b""
        was = codec.decode(self.record.goal)
        shape = None if self.agent is None else self.agent.goal_shape
        plain = self._kept(shape, codec.plain(goal, where="$.goal"), was, "$.goal")
        self.told.append(Changed("goal", "", was, plain))
        return codec.encode(plain, where="$.goal")

    def _kept(self, shape: Shape[Any] | None, given: Any, was: Any, where: str) -> Any:
        """What a person gives in the place of `was`, as it is kept: by its type, if the code is at hand.

        Without it, what takes the place of personal data is sealed like that; where nothing tells whether
        it is personal, it is not taken.
        """
        if shape is not None:
            try:
                return shape.taken(given, where=where)
            except ShapeMismatch as error:
                raise ShapeMismatch(
                    error.what, safe=_NONE_MADE, remedy="give a value of that type"
                ) from error
        if not self.private:
            return given
        was = None if was is MISSING else was
        if unclear(given, was):
            run = clean(self.order.run_id)
            raise BadChange(
                f"run {run} has personal data, and only its code says whether what is given for {where} is",
                remedy=f"name the code: perdure fork {run}@{self.record.seq} … --app FILE:AGENT, or"
                " Runtime(store, agents=[agent])",
            )
        return beside(given, was)

    def _first_state(self, goal: Any) -> Any:
        """Where no step is done, the state is what the agent makes of the goal."""
        if self.agent is None:
            raise BadChange(
                "the state of a run that has done no step is made of its goal, by the agent's own code, which"
                " is not at hand here",
                remedy="name the code: perdure fork RUN@POINT --goal … --app FILE:AGENT, or"
                " Runtime(store, agents=[agent])",
            )
        plain = self.agent.goal_shape.taken(codec.plain(goal, where="$.goal"), where="$.goal")
        restored = self.agent.goal_shape.restore(plain, where="$.goal")
        return codec.plain(self.agent.first_state(restored), where="$.state")

    # -- results

    def _results(self, wanted: Mapping[str, Any]) -> None:
        for path, value in wanted.items():
            item = self.record.calls.get(path) or self.record.waits.get(path)
            if item is None or (isinstance(item, CallRecord) and item.name in e.DRAWN):
                raise self._not_here(path, item)
            outcome = item.closed if isinstance(item, WaitRecord) else item.seq if item.settled else 0
            later = [one for one in kept(self.record) if first_seq(one) > outcome > 0 and one is not item]
            later = [one for one in later if not _beside(one.path, path)]
            if later:
                run = clean(self.order.run_id)
                raise BadChange(
                    f"the result of {path} cannot be changed at event {self.record.seq}: {later[0].path}"
                    f" ({clean(_named(later[0]))}) came after it and may rest on it",
                    remedy=f"change it where it came: perdure fork {run}@{outcome} --result {path}=JSON",
                )
            was = codec.decode(item.value) if outcome and item.value else MISSING
            plain = self._result(item, codec.plain(value, where=f"$.result[{path!r}]"), was)
            self.outcomes.append(self._outcome(item, plain))
            self.given.add(path)
            self.told.append(Changed("result", f"{path} {_named(item)}", was, plain))

    def _not_here(self, path: str, item: CallRecord | WaitRecord | None) -> BadChange:
        if item is not None:
            remedy = "change what was made of it: a value in the state, or the result of another call"
            return BadChange(f"{path} is {item.name}, which cannot be changed", remedy=remedy)
        run = clean(self.order.run_id)
        seq = next((event.seq for event in reversed(self.past) if _settles(event.body, path)), 0)
        if not seq:
            there = ", ".join(f"{one.path} ({clean(_named(one))})" for one in kept(self.record, self.given))
            return BadChange(
                f"run {run} has no result of a call or wait {clean(path)}; its step that is open at event"
                f" {self.record.seq} has {there or 'recorded none'}",
                remedy=f"name a call by its place: perdure show {run} --json has the path of each",
            )
        return BadChange(
            f"call {clean(path)} of run {run} is none of the step that is open at event {self.record.seq}",
            remedy=f"its result came at event {seq}: perdure fork {run}@{seq} --result {clean(path)}=JSON",
        )

    def _result(self, item: CallRecord | WaitRecord, given: Any, was: Any) -> Any:
        """What is given for a call or a wait, as it is kept."""
        if isinstance(item, CallRecord):
            tool = None if self.agent is None else self.agent.tool_named(item.name)
            return self._kept(None, given, was, item.path) if tool is None else fit(tool, given)
        if item.kind in ("signal", "answer"):
            return by_schema(terms_of(item).schema, given)
        return self._kept(None, given, was, item.path)

    def _outcome(self, item: CallRecord | WaitRecord, plain: Any) -> e.AnyBody:
        value = codec.encode(plain, where="$.result")
        if isinstance(item, CallRecord):
            return e.CallSettled(item.path, "done", value, attempt=item.attempt)
        match item.kind:
            case "sleep":
                what = f"{item.path} is a sleep, which comes to nothing"
                raise BadChange(what, remedy="leave it out: in a fork its time begins anew")
            case "child":
                return e.WaitClosed(item.path, "child", codec.encode(_told(value)), by=item.name)
            case "signal" | "answer" as how:
                if misfit := terms_of(item).misfit(plain):
                    raise ShapeMismatch(f"{written(plain, 80)} is none that {words(item)} takes: {misfit}")
                return e.WaitClosed(item.path, how, value, by=self.order.by)

    # -- models and limits

    def _models(self) -> dict[str, str]:
        wanted = self.order.change.model
        if wanted is None:
            return {}
        declared = {**read_manifest(self.record.manifest).models, **self.record.models}
        named = dict.fromkeys(declared, wanted) if isinstance(wanted, str) else dict(wanted)
        unknown = [name for name in named if name not in declared]
        if unknown or not declared:
            known = ", ".join(map(clean, declared)) or "none"
            names = ", ".join(map(clean, unknown))
            raise BadChange(
                f"the agent declares no model function {names}; it has: {known}",
                remedy="name one that it has: --model NAME=MODEL, or --model MODEL for all of them",
            )
        self.told += [Changed("model", name, declared[name], model) for name, model in named.items()]
        return named

    def _limits(self) -> Limits | None:
        wanted = None if self.order.change.budget is None else self.order.change.budget.limits()
        if wanted is None:
            return None
        before = Limits() if self.record.ledger is None else self.record.ledger.now
        spent = spent_of(self.record)
        both: dict[str, Any] = {}
        for kind in KINDS:
            limit, had = wanted.of(kind), before.of(kind)
            both[kind] = had if limit is None else limit
            if limit is None:
                continue
            if limit < spent.of(kind):
                raise BudgetBelowSpent(
                    f"by event {self.record.seq} the run had spent {told(kind, spent.of(kind))}, which its"
                    f" fork inherits; {told(kind, limit)} would be below that",
                    run_id=self.order.run_id,
                )
            self.told.append(
                Changed("budget", kind, MISSING if had is None else told(kind, had), told(kind, limit))
            )
        own = tuple(kind for kind in KINDS if kind in wanted.own or kind in before.own)
        return Limits(**both, own=own)


_NONE_MADE = "No fork was made; the run is unchanged."


def _told(value: bytes) -> dict[str, Any]:
    end = Told("succeeded", value, (0,) * len(KINDS))
    return {"status": end.status, "value": end.value, "used": list(end.used)}


def _settles(body: e.AnyBody, path: str) -> bool:
    ends = e.CallSettled | e.CallReconciled | e.CallLate | e.FactRead | e.WaitClosed
    return isinstance(body, ends) and body.path == path


def _beside(one: str, other: str) -> bool:
    """Whether two places are in branches that run side by side, so that neither can know of the other.

    A place is `step:index`, then for each gather the number of a branch and the index in it.
    """
    parts = [path.partition(":")[2].split(".") for path in (one, other)]
    for depth, (a, b) in enumerate(zip(*parts, strict=False)):
        if a != b:
            return depth % 2 == 1
    return False


def _named(item: CallRecord | WaitRecord) -> str:
    return item.name if isinstance(item, CallRecord) else words(item)


# ------------------------------------------------------------------------------------------- the new run


async def _new_run(
    store: Store, order: ForkOrder, record: RunRecord, bodies: Sequence[e.AnyBody], now: int
) -> NewRun:
    """The fork as a store makes it: its origin's events up to the point, and its own first ones."""
    while True:
        row = await store.row(order.run_id)
        stored, blobs = await gathered(store, order.run_id, record.seq)
        base = await store.snapshot(order.run_id, row.floor) if row.floor else None
        left = await store.tombstones(order.run_id) if row.floor else ()
        if (await store.row(order.run_id)).floor == row.floor:  # else it was compacted meanwhile
            break
    items, digest = list(stored), stored[-1].digest if stored else base.digest if base else GENESIS
    for body in map(behind_wall, bodies):
        slim, large = outline(body)
        event = e.Event(record.seq + 1, now, row.epoch, slim)
        data = codec.pack(event)
        digest = codec.chain(digest, data)
        items.append(Stored(event.seq, data, digest))
        blobs += large
        record = fold(record, e.Event(event.seq, now, row.epoch, body), codec.decode)
    pinned = read_manifest(record.manifest).pinned
    return NewRun(
        order.new_id,
        record.agent,
        str(RunKey(record.version, record.state_version, pinned, codec.FORMAT)),
        "ready",
        tuple(items),
        info=row_info(record, ""),
        blobs=tuple({blob.digest: blob for blob in blobs}.values()),
        epoch=row.epoch,
        placement=row.placement,
        base=base,
        left=left,
        shares=order.run_id,
    )


async def _check_key(store: Store, order: ForkOrder) -> None:
    """The fork's personal data is its origin's, and opens with a key of the same bytes that is its own.

    Raises ForkRefused if that key was destroyed, OtherFork if the id has another one.
    """
    key = await store.key(order.run_id)
    if key == b"":
        raise ForkRefused(
            f"the personal data of run {clean(order.run_id)} was erased: a fork could not read its state",
            remedy="start a new run",
        )
    if await store.key(order.new_id) not in (None, key):
        what = f"there was a run {clean(order.new_id)} already, with personal data of its own"
        raise OtherFork(what, run_id=order.new_id)


async def _same(store: Store, row: RunRow, body: e.RunForked, at: int) -> None:
    """Refuse unless the run that has this id is the same fork. Raises OtherFork."""
    events = await history(store, row.run_id, after=at)
    first = events[0].body if events else None
    if not isinstance(first, e.RunForked) or _essence(first) != _essence(body):
        what = f"there is a run {clean(row.run_id)} already, and it is not this fork"
        raise OtherFork(what, run_id=row.run_id)


def _essence(body: e.RunForked) -> tuple[Any, ...]:
    return (body.run, body.effects, body.goal, body.patch, body.given, body.models, body.budget)


# ------------------------------------------------------------------------------------------- in words


def _left(record: RunRecord) -> list[str]:
    """What of the origin is not its fork's."""
    words_ = [f"approval {clean(one.id)}: asked again" for one in record.approvals.values() if one.open]
    open_ = [wait for wait in record.waits.values() if not wait.closed]
    words_ += [f"{clean(words(wait))} at {wait.path}: begins anew" for wait in open_]
    words_ += [f"signal {clean(one.name)!r}: not inherited" for one in record.signals]
    if record.cancel is not None:
        words_.append(f"the cancel asked for by {clean(record.cancel)}: not inherited")
    if record.held is not None:
        words_.append(f"the hold ({clean(record.held.reason)}): lifted")
    return words_


_IN_FORK: dict[e.Effects, str] = {"ask": "asked", "simulate": "stands in", "redo": "made again"}


def _shown(act: e.OriginAct, effects: e.Effects) -> OriginalAct:
    known = act.outcome in ("done", "failed") and bool(act.value)
    return OriginalAct(
        act.run,
        act.path,
        act.name,
        act.effect,
        {name: codec.decode(value) for name, value in act.args if value},
        act.outcome,
        codec.decode(act.value) if act.value else None,
        act.seq,
        "asked" if effects == "simulate" and not known else _IN_FORK[effects],
        act.child,
        act.acts,
        act.undone,
    )
