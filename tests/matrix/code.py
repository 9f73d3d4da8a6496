"""One agent, and the ways in which a deploy changes it: the rows of the matrix.

The agent looks something up, asks a model, charges (which cannot be taken back, and can be looked up), and
refunds once a person has agreed. Each change is the same code but for one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from perdure import Agent, Approval, Done, NotDone, current_call, model, tool
from perdure.agent import DeployPolicy
from tests.unit.runtime.stage import World

DAY = timedelta(hours=24)


@dataclass
class State:
    """What the runs that are open were started with: version 2."""

    total: int = 0
    note: str = ""


@dataclass
class More:
    """A field more, with a default."""

    total: int = 0
    note: str = ""
    currency: str = "EUR"


@dataclass
class Less:
    """A field less."""

    total: int = 0


@dataclass
class Renamed:
    """A field by another name."""

    total: int = 0
    remark: str = ""


@dataclass
class Retyped:
    """A field of another type."""

    total: str = "0"
    note: str = ""


@dataclass(frozen=True)
class Code:
    """What the agent's code is, in the parts that change."""

    name: str = "desk"
    version: str = "1"
    state: type = State
    state_version: int = 2
    migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = field(
        default_factory=lambda: {1: lambda old: old}
    )
    order: tuple[str, ...] = ("look", "chat", "charge", "refund")
    charge: str = "charge"
    charge_name: str = "charge"
    refund: str = "refund"
    effect: str = "irreversible"
    model: str = "m-1"
    unused: bool = True
    added: bool = False
    permitted: str = "all"
    policy: DeployPolicy = field(default_factory=DeployPolicy)

    def agent(self, world: World) -> Agent[Any, Any, Any]:
        """The agent, whose acts are the world's."""
        parts = _tools(self, world)
        listed = [parts[name] for name in ("look", "chat", "refund")]
        listed += [parts["charge"]] if "charge" in self.order else []
        listed += [parts["unused"]] if self.unused else []
        listed += [parts["added"]] if self.added else []
        made = Agent(
            self.name,
            version=self.version,
            state=self.state,
            state_version=self.state_version,
            result=str,
            tools=listed,
            durability="strict",
            on_change=self.policy,
        )
        for version, migrate in self.migrations.items():
            made.migration(version)(migrate)
        made.authorize(lambda who, call: self._permits(who.id, call.tool))
        made.step(self._step(parts))
        return made

    def _permits(self, who: str, name: str) -> bool:
        if self.permitted == "nobody":
            raise LookupError(f"nobody of the name {who}")
        return self.permitted == "all" or name in ("look", "chat")

    def _step(self, parts: dict[str, Any]) -> Any:
        argument = "5" if self.charge == "text" else 5

        async def step(run: Any) -> None:
            for place in self.order:
                if place == "since":
                    if run.since("check"):
                        await parts["look"]("check")
                elif place in ("charge", "refund"):
                    await parts[place](argument if place == "charge" else 7)
                else:
                    await parts[place](place)
            run.finish("done")

        return step


def _tools(code: Code, world: World) -> dict[str, Any]:
    """The tools as this code declares them."""

    @tool(effect="read")
    async def look(at: str) -> str:
        return f"{at} seen"

    @model(code.model)
    async def chat(said: str) -> str:
        return f"{said} answered"

    @tool(effect="read")
    async def unused(at: int) -> int:
        return at

    @tool(effect="read")
    async def added(at: int) -> int:
        return at

    parts = {"look": look, "chat": chat, "unused": unused, "added": added, "check": look}
    return {**parts, "charge": _charge(code, world), "refund": _refund(code, world)}


def _charge(code: Code, world: World) -> Any:
    effect: Any = code.effect
    if code.charge == "more":

        @tool(name="charge", effect=effect)
        async def charge_more(cents: int, currency: str = "EUR") -> str:
            return str(world.act("charged"))

        @charge_more.reconcile
        async def found_more(cents: int, currency: str) -> Done[str] | NotDone:
            return _found(world)

        return charge_more
    if code.charge == "text":

        @tool(name="charge", effect=effect)
        async def charge_text(cents: str) -> str:
            return str(world.act("charged"))

        @charge_text.reconcile
        async def found_text(cents: str) -> Done[str] | NotDone:
            return _found(world)

        return charge_text

    @tool(name=code.charge_name, effect=effect)
    async def charge(cents: int) -> str:
        return str(world.act("charged"))

    if effect == "irreversible":

        @charge.reconcile
        async def found(cents: int) -> Done[str] | NotDone:
            return _found(world)

    return charge


def _found(world: World) -> Done[str] | NotDone:
    reply = world.find(current_call().key)
    return NotDone() if reply is None else Done(reply)


def _refund(code: Code, world: World) -> Any:
    approval = Approval(expires=DAY)
    if code.refund == "more":

        @tool(name="refund", effect="irreversible", approval=approval)
        async def refund_more(cents: int, currency: str = "EUR") -> str:
            return str(world.act("refunded"))

        return refund_more

    @tool(effect="irreversible", approval=approval)
    async def refund(cents: int) -> str:
        return str(world.act("refunded"))

    return refund


OLD = Code()


def _changed(**parts: Any) -> Code:
    return replace(OLD, **parts)


def _to_three(migrate: Callable[[dict[str, Any]], dict[str, Any]], state: type) -> Code:
    return _changed(state=state, state_version=3, migrations={2: migrate})


CHANGES: dict[str, Code] = {
    "nothing": OLD,
    "a tool added": _changed(added=True),
    "a tool removed that the step does not use": _changed(unused=False),
    "a tool removed, and its call with it": _changed(order=("look", "chat", "refund")),
    "a tool renamed": _changed(charge_name="bill"),
    "a tool renamed, `renamed=` says so": _changed(
        charge_name="bill", policy=DeployPolicy(renamed={"charge": "bill"})
    ),
    "an argument added": _changed(charge="more"),
    "an argument added to a tool whose approval is open": _changed(refund="more"),
    "an argument's type changed": _changed(charge="text"),
    "the effect class changed": _changed(effect="idempotent"),
    "the model replaced": _changed(model="m-2"),
    "the model replaced, `models=` says so": _changed(
        model="m-2", policy=DeployPolicy(models={"m-1": "m-2"})
    ),
    "a permission revoked": _changed(permitted="reads"),
    "the identity gone": _changed(permitted="nobody"),
    "an approval expired": OLD,
    "a state field added, with a default": _changed(state=More),
    "a state field removed, with a migration": _to_three(lambda old: {"total": old["total"]}, Less),
    "a state field renamed, with a migration": _to_three(
        lambda old: {"total": old["total"], "remark": old["note"]}, Renamed
    ),
    "a state field retyped, with a migration": _to_three(
        lambda old: {**old, "total": str(old["total"])}, Retyped
    ),
    "a state field retyped, without one": _changed(state=Retyped),
    "a migration that fails": _to_three(lambda old: {"total": old["sum"]}, Less),
    "a state version skipped": _changed(state_version=4, migrations={3: lambda old: old}),
    "an older state version": _changed(state_version=1, migrations={}),
    "another agent version": _changed(version="2"),
    "an older agent version": _changed(version="0"),
    "calls of the step reordered": _changed(order=("look", "charge", "chat", "refund")),
    "a call inserted before the recorded point": _changed(
        order=("look", "check", "chat", "charge", "refund")
    ),
    "the same behind `run.since`": _changed(order=("look", "since", "chat", "charge", "refund")),
    "a call inserted after the recorded point": _changed(order=("look", "chat", "charge", "refund", "check")),
    "the agent renamed": _changed(name="bureau"),
}
"""What a deploy changes, in words, and the code after it."""
