"""What people and other programs send to a run: each verb is one message, durable and without a lease.

A word that the run cannot take is refused before anything is written; where words race, the one that lies
first in the inbox counts, and whoever lost is told so (laws 9, 10 and 17). Nothing here drives a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace as evolve

from perdure import codec
from perdure.agent import Agent, Principal, Tool
from perdure.clock import Clock
from perdure.codec.redaction import refuse_leak
from perdure.codec.sealed import Seen, Vault
from perdure.codec.sealing import any_sealed, wrapped
from perdure.errors import (
    ApprovalError,
    ApprovalVoided,
    BadArguments,
    CodeMissing,
    EditRefused,
    NoSuchApproval,
    NoSuchRun,
    NothingToResolve,
    NotYours,
    RunEnded,
    ShapeMismatch,
)
from perdure.journal import Past, load, retold
from perdure.recovery.verdicts import may_restart
from perdure.runtime import approvals, decisions, requests, senders
from perdure.runtime.drive import Host
from perdure.runtime.idle import end_cancelled
from perdure.runtime.messages import foreseen
from perdure.runtime.origin import REASON, may_reuse, undecided
from perdure.runtime.raising import check_part, check_raise, message_of, more_of
from perdure.runtime.resolved import fit, resolvable, tool_of
from perdure.runtime.retiring import retire
from perdure.runtime.vaults import entered, vault_of
from perdure.state import events as e
from perdure.state.fold import fold
from perdure.state.record import ApprovalRecord, AskedEffect, RunRecord
from perdure.store.protocol import Inbound, Message, Store


class Desk:
    """The verbs by which a run is answered. `agents`: those whose code is at hand, by name."""

    store: Store
    clock: Clock
    host: Host
    agents: Mapping[str, Agent[Any, Any, Any]]

    async def cancel(self, run_id: str, *, by: str, note: str = "", compensate: bool = False) -> bool:
        """Ask a run to end: no new intent from now on. True: it has ended. Raises RunEnded, NoSuchRun.

        A run that nobody drives and in which nothing is open ends at once; else whoever drives it ends it,
        once each of its calls has a verdict. `compensate`: before that its acts are undone, newest first, by
        the undo hooks of their tools; this may be asked for after a cancel, while the run is open.
        """
        data: dict[str, Any] = {"by": by, "note": note}
        await self._send(run_id, "cancel", {**data, "compensate": True} if compensate else data)
        return await end_cancelled(self.store, self.host.worker, self.clock, run_id)

    async def retire(self, run_id: str, *, by: str, note: str = "") -> None:
        """End a run for good because no code can carry it on. Nothing is undone, and nothing is called.

        Raises NotRetirable where a call has no known outcome, a child has not ended or a worker drives the
        run; RunEnded, NoSuchRun.
        """
        await self._going_on(run_id)
        await retire(self.store, self.host.worker, self.clock, run_id, by=by, note=note)

    async def resolve(
        self,
        run_id: str,
        path: str,
        *,
        by: str,
        done: object = ...,
        not_done: bool = False,
        failed: str | None = None,
        note: str = "",
    ) -> None:
        """Say what became of an unknown call: `done=RESULT`, `not_done=True` or `failed=MESSAGE`.

        Or of an undo that did not work: `done` says that it is undone by hand, `failed` that it stays.

        A result is checked by the tool's declared type where the agent is known here; else the worker that
        takes it checks it, and holds the run if it does not fit. Raises NothingToResolve if the call is not
        open, BadArguments unless exactly one verdict is given, ShapeMismatch.
        """
        given = [done is not ..., not_done, failed is not None]
        if sum(given) != 1:
            raise BadArguments("give exactly one of done=, not_done=True, failed=")
        past = await load(self.store, run_id)
        record = past.record
        call = record.calls.get(path)
        if any(_answers(message, path) for message in past.inbox):
            raise NothingToResolve(
                f"call {path} of run {run_id} has been answered; the next worker applies it",
                remedy="perdure run or perdure worker carries the run on",
                run_id=run_id,
                path=path,
            )
        if call is None or not resolvable(call):
            raise NothingToResolve(
                f"run {run_id} has no call {path} whose outcome is open", run_id=run_id, path=path
            )
        verdict, value = "not_done", b""
        if failed is not None:
            verdict, value = "failed", codec.encode(codec.encode_error(RuntimeError(failed)))
        elif done is not ...:
            agent = self.agents.get(record.agent)
            tool = None if agent is None else tool_of(agent, record, call)
            verdict, value = "done", await self._given(run_id, tool, done)
        said = {"path": path, "attempt": call.attempt, "verdict": verdict, "value": value}
        data = {"by": by, "note": note, **said}
        await self._send(run_id, "resolve", data)

    async def _given(self, run_id: str, tool: Tool[..., Any] | None, result: object) -> bytes:
        """A person's result as value bytes: by the types of its tool, where that is known here.

        Where it is not, nobody knows what of it is personal: in a run that has personal data it goes sealed
        as a whole, and whoever drives the run opens it.
        """
        private = bool(await self.store.key(run_id))
        Seen.personal = Seen.personal or private
        with entered(await self._vault(run_id)):
            plain = codec.plain(result, where="$.result")
            if tool is not None:
                plain = fit(tool, plain)
            elif private and not any_sealed(plain):
                plain = wrapped(plain)
            return codec.encode(plain, where="$.result")

    async def decide_effect(
        self,
        run_id: str,
        path: str | None,
        how: e.Standin,
        *,
        by: str,
        result: object = ...,
        note: str = "",
    ) -> str:
        """Decide about a call that a fork is held for, since its origin has made it; gives the call's path.

        `how`: `reuse` (the origin's result is taken), `act` (it is really made, again) or `simulate`
        (`result` is taken); for the first and the last nothing is sent. `path` None: the one that it is held
        for. Raises NothingToResolve where no call waits for this, BadArguments, ShapeMismatch.
        """
        if how not in ("reuse", "act", "simulate") or (how == "simulate") != (result is not ...):
            raise BadArguments("how= is reuse, act or simulate; result= belongs to simulate, and to it alone")
        record = (await self._going_on(run_id)).record
        if path is None and record.held is not None and record.held.reason == REASON:
            path = record.held.path
        asked = [one for one in undecided(record) if path in (None, one.path)]
        if len(asked) != 1:
            where = "" if path is None else f" {path}"
            what = f"has several: {', '.join(one.path for one in asked)}" if asked else "has none"
            raise NothingToResolve(
                f"run {run_id} {what}: calls{where} that its origin has made and that wait for a decision",
                run_id=run_id,
            )
        one = asked[0]
        if how == "reuse" and not may_reuse(record, one):
            raise NothingToResolve(
                f"the origin of run {run_id} has left no result that could be taken for call {one.path}",
                remedy="make it (act), or give a result (simulate)",
                run_id=run_id,
            )
        data: dict[str, Any] = {"path": one.path, "digest": one.digest, "how": how}
        if how == "simulate":
            data["value"] = await self._given(run_id, self._tool(record, one), result)
        await self._send(run_id, "effect", {"by": by, "note": note, **data})
        return one.path

    def _tool(self, record: RunRecord, one: AskedEffect) -> Tool[..., Any] | None:
        """The tool that would be called, if its code is at hand and the origin's act tells its name."""
        agent = self.agents.get(record.agent)
        if agent is None or record.fork is None or one.act < 0 or record.fork.acts[one.act].child:
            return None
        return agent.tool_named(record.fork.acts[one.act].name)

    async def signal(
        self,
        run_id: str,
        name: str,
        payload: object = None,
        *,
        id: str | None = None,  # noqa: A002  (the word that senders know)
        by: str | Principal = "",
    ) -> bool:
        """Send a signal, durably; it is kept until a wait takes it. True: it is new.

        False: it had come before, under this very `id` of the sender's. Raises IdReused (A416) if the id
        came with other content, SignalUnfit (A417) where the run waits for another type, RunEnded, NoSuchRun.
        """
        who = senders.name_of(by)
        with entered(await self._vault(run_id)):
            return await senders.signal(self.store, self.clock, run_id, name, payload, sent_as=id, by=who)

    async def _vault(self, run_id: str) -> Vault | None:
        """The vault of a run that is there. Raises NoSuchRun, RunGone."""
        if not Seen.personal:
            return None
        row = await self.store.row(run_id)
        return await vault_of(self.store, run_id, make=not row.terminal)

    async def answer(
        self,
        run_id: str,
        value: object,
        *,
        by: str | Principal,
        question: str | None = None,
        id: str | None = None,  # noqa: A002  (the word that senders know)
    ) -> bool:
        """Answer what a run asks, durably. `question`: its place, as in 3:0; None for the only one.

        True: it is new; False: it had come before under this very `id`. Raises AnswerUnfit (A415) and the
        question stays open, AlreadyAnswered (A413), AnswerLate (A414), NoSuchQuestion (A412), RunEnded.
        """
        who = senders.name_of(by)
        with entered(await self._vault(run_id)):
            return await senders.answer(
                self.store, self.clock, run_id, value, question=question, sent_as=id, by=who
            )

    async def release(self, run_id: str, *, by: str, note: str = "", sure: bool = False) -> None:
        """Let a held run go on as it is. Raises NothingToResolve if it is not held.

        One that was restored or imported looks up each act before it makes it, by the reconcile hook of its
        tool, or else is held again to ask. `sure`: nothing was done that its store does not know, and it acts
        without asking. Raises BadArguments if that was never the question.
        """
        record = (await self._held(run_id)).record
        if sure and record.doubt is None:
            raise BadArguments(
                f"run {run_id} was neither restored nor imported: there is nothing to be sure of",
                remedy=f"perdure release {run_id}, without --sure",
            )
        data: dict[str, Any] = {"by": by, "note": note}
        await self._send(run_id, "release", {**data, "sure": True} if sure else data)

    async def raise_budget(self, run_id: str, *, by: str, why: str = "", **more: float) -> None:
        """Give a run more: `usd=1`, `tokens=`, `calls=`, `steps=`, `seconds=`; one held for it goes on.

        Recorded with who and why. Negative amounts take back what is neither spent nor reserved. Raises
        BadSetting, NoSuchLimit, BudgetBelowSpent, RunEnded, PartOfAnother.
        """
        amount = more_of(more)
        past = await self._going_on(run_id)
        check_raise(run_id, past.record, amount)
        if past.record.parent is not None and past.record.path:
            check_part(run_id, (await load(self.store, past.record.parent)).record, amount)
        await self._send(run_id, "budget", message_of(amount, by, why))

    async def retry(self, run_id: str, *, by: str, restart: bool = False, note: str = "") -> None:
        """Execute a held run's open step again; `restart`: without its records, if nothing in it acts.

        Raises NothingToResolve, RunEnded, NoSuchRun.
        """
        past = await self._held(run_id)
        if restart and not may_restart(past.record):
            raise NothingToResolve(
                f"step {past.record.step + 1} of run {run_id} cannot begin anew: a call in it acts",
                remedy=f"perdure retry {run_id} without --restart, or perdure cancel {run_id}",
                run_id=run_id,
            )
        await self._send(run_id, "retry", {"by": by, "note": note, "restart": restart})

    async def _going_on(self, run_id: str) -> Past:
        past = await load(self.store, run_id)
        if past.row.terminal:
            raise RunEnded(f"run {run_id} has ended as {past.row.status}", run_id=run_id)
        return past

    async def _held(self, run_id: str) -> Past:
        past = await self._going_on(run_id)
        if past.record.held is None:
            raise NothingToResolve(f"run {run_id} is not held", run_id=run_id)
        return past

    async def _send(self, run_id: str, kind: str, data: dict[str, Any]) -> None:
        message = codec.encode(data)
        refuse_leak(message, f"the message ({kind})")
        await self.store.deliver(Message(run_id, self.clock.new_id(), kind, message))

    # -- permissions

    async def approve(
        self, approval_id: str, *, by: Principal, note: str = "", edit: Mapping[str, Any] | None = None
    ) -> None:
        """Permit the call that a request asks for, once. `edit`: arguments in the place of those asked.

        Returns when it is durable that this decision counts; with a quorum the call is made when enough
        people have agreed to the same arguments. Raises AlreadyDecided, ApprovalExpired, ApprovalVoided,
        NoSuchApproval, NotYours, EditRefused, LookAgain, CodeMissing, RunEnded.
        """
        await self._decide("approve", approval_id, by, note, edit)

    async def deny(self, approval_id: str, *, by: Principal, note: str = "") -> None:
        """Forbid the call that a request asks for, or take a permission back while it is not used.

        Raises AlreadyDecided, ApprovalExpired, ApprovalVoided, NoSuchApproval, NotYours, CodeMissing,
        RunEnded.
        """
        await self._decide("deny", approval_id, by, note, None)

    async def _decide(
        self,
        verdict: decisions.Verdict,
        approval_id: str,
        by: Principal,
        note: str,
        edit: Mapping[str, Any] | None,
    ) -> None:
        past = await self._asking(approval_id)
        run_id = past.row.run_id
        waiting = () if past.row.terminal else decisions.concerning(past.inbox, approval_id)
        record = foreseen(past.record, waiting, run_id)
        asked = decisions.find(record, approval_id)
        if asked is None:
            asked = await self._closed(past, approval_id)
        decision = decisions.Decision(
            id=approval_id,
            verdict=verdict,
            principal=by.id,
            roles=tuple(sorted(by.roles)),
            note=note,
            edit=None,
            seen=decisions.version(asked),
        )
        refused = decisions.no_use(record, asked) or decisions.refusal(asked, decision, self.store.now())
        if refused is not None:
            raise refused
        with entered(await self._vault(run_id)):
            self._permitted(record, asked, by, run_id)
        if edit is not None:
            with entered(await self._vault(run_id)):
                decision = evolve(decision, edit=self._edited(record, asked, edit))
        refuse_leak(decision.data, "the decision")
        message = Message(run_id, decision.message_id, verdict, decision.data)
        delivered = await self.store.deliver(message)
        await self._must_count(past, decision, delivered.position)

    async def _asking(self, approval_id: str) -> Past:
        """The run that a request belongs to. Raises NoSuchApproval."""
        run_id = decisions.run_of(approval_id)
        if run_id is None:
            raise NoSuchApproval(f"{approval_id!r:.200} is no approval id: they look like RUN~0123456789ab")
        try:
            return await load(self.store, run_id)
        except NoSuchRun as error:
            raise NoSuchApproval(f"there is no run {run_id} that could ask for {approval_id}") from error

    async def _closed(self, past: Past, approval_id: str) -> ApprovalRecord:
        """A request that the open step knows no more, as it stood last. Raises if it was still open."""
        told = await retold(self.store, past.row.run_id)
        record = told.base
        last = decisions.find(record, approval_id) or requests.asked_before(told, approval_id)
        for event in told.later:
            record = fold(record, event, codec.decode)
            last = decisions.find(record, approval_id) or last
        if last is None:
            raise NoSuchApproval(f"run {past.row.run_id} has not asked for {approval_id}")
        if last.open and past.row.terminal:
            raise RunEnded(
                f"run {past.row.run_id} has ended as {past.row.status}",
                run_id=past.row.run_id,
                status=past.row.status,
            )
        if last.open:
            raise ApprovalVoided(
                f"approval {approval_id} is void: its step has ended", approval_id=approval_id
            )
        return last

    def _permitted(self, record: RunRecord, asked: ApprovalRecord, by: Principal, run_id: str) -> None:
        """Ask the tool's own function, where it decides who may. Raises NotYours, CodeMissing."""
        if asked.by != decisions.FUNCTION:
            return
        policy = self._code(
            record, asked, "who may decide is a function of the agent's code"
        ).options.approval
        request = requests.request_of(run_id, record, asked)
        if policy is not None and not approvals.may_decide(policy, by, request):
            raise NotYours(f"{by.id} may not decide {asked.id}: the tool's own function says no")

    def _edited(
        self, record: RunRecord, asked: ApprovalRecord, edit: Mapping[str, Any]
    ) -> tuple[tuple[str, bytes], ...]:
        """The edit as value bytes, on top of what is edited already. Raises EditRefused, CodeMissing."""
        tool = self._code(record, asked, "edited arguments are judged by the types in the agent's code")
        shapes, values = tool.parameters.shapes, dict(asked.edit)
        for name, value in edit.items():
            if name not in shapes:
                known = ", ".join(shapes) or "none"
                raise EditRefused(f"{tool.name} has no parameter {name!r}; its parameters: {known}")
            try:
                fitting = shapes[name].restore(codec.plain(value, where=f"$.{name}"), where=f"$.{name}")
            except ShapeMismatch as error:
                raise EditRefused(f"{tool.name}: {error.what}", **error.facts) from error
            values[name] = codec.encode(fitting, where=f"$.{name}")
        return tuple(sorted(values.items()))

    def _code(self, record: RunRecord, asked: ApprovalRecord, why: str) -> Tool[..., Any]:
        """The tool that a request is for. Raises CodeMissing."""
        agent = self.agents.get(record.agent)
        tool = None if agent is None else agent.tool_named(asked.head.name)
        if tool is None:
            raise CodeMissing(
                f"approval {asked.id} cannot be decided here: {why}, and {record.agent} is not served here",
                remedy="say the same again with --app FILE:AGENT; in Python: Runtime(store, agents=[agent])",
            )
        return tool

    async def _must_count(self, past: Past, decision: decisions.Decision, position: int) -> None:
        """Raise what came first, unless the decision at this place in the inbox is the one that counts."""
        now = await load(self.store, past.row.run_id)
        waiting = () if now.row.terminal else now.inbox
        mine = next((message for message in waiting if message.position == position), None)
        if mine is not None:
            earlier = [message for message in waiting if message.position < position]
            record = foreseen(now.record, decisions.concerning(earlier, decision.id), past.row.run_id)
            asked = decisions.find(record, decision.id)
            if asked is None:
                raise await self._too_late(now, decision)
            refused = decisions.no_use(record, asked) or decisions.refusal(asked, decision, mine.at)
            if refused is not None:
                raise refused
            return
        for event in (await retold(self.store, past.row.run_id)).events:
            if (
                event.seq > past.record.seq
                and isinstance(event.body, e.ApprovalGranted | e.ApprovalDenied)
                and event.body.message == position
                and event.body.id == decision.id
            ):
                return
        raise await self._too_late(now, decision)

    async def _too_late(self, past: Past, decision: decisions.Decision) -> Exception:
        """Why a decision that was accepted did not count when it was taken."""
        asked = decisions.find(past.record, decision.id)
        try:
            asked = asked or await self._closed(past, decision.id)
        except (ApprovalError, RunEnded) as error:
            return error
        moot = decisions.no_use(past.record, asked)
        refused = moot or decisions.refusal(asked, decision, self.store.now())
        return refused or ApprovalVoided(f"approval {decision.id} was not open when this decision was taken")


def _answers(message: Inbound, path: str) -> bool:
    """Whether this message already says what became of the call at `path`."""
    return message.kind == "resolve" and codec.decode(message.data)["path"] == path
