"""People who are asked for a permission, and agents that ask them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import perdure
from perdure.agent import Approval, ApprovalRequest, Principal, Waiting
from perdure.errors import ApprovalDenied, ApprovalExpired
from tests.unit.runtime.stage import Stage, World

ANA = Principal("ana", frozenset({"finance"}))
BOB = Principal("bob", frozenset({"finance"}))
EVE = Principal("eve")
HOUR = timedelta(hours=1)


def payer(world: World, *, effect: Any = "irreversible", **policy: Any) -> Any:
    """A tool that pays, and needs a permission."""
    policy = {"expires": HOUR} | policy

    @perdure.tool(effect=effect, name="pay", approval=Approval(**policy))
    async def pay(to: str, cents: int) -> str:
        return str(world.act(f"{to} has {cents}"))

    return pay


def paying(pay: Any, *args: Any) -> Any:
    """A step that pays once, and tells what came of it."""

    async def step(run: Any) -> None:
        try:
            run.finish(await pay(*(args or ("ada", 1200))))
        except (ApprovalDenied, ApprovalExpired) as error:
            run.finish(f"{type(error).__name__}: {error.what}")

    return step


async def asked(stage: Stage, made: Any) -> ApprovalRequest:
    """Run until it asks, and give what it asks for."""
    outcome = await stage.run(made)
    assert isinstance(outcome, Waiting), outcome
    assert len(outcome.approvals) == 1
    return outcome.approvals[0]


async def decide(
    stage: Stage, verb: str, approval: str, *made: Any, by: Principal = ANA, **more: Any
) -> None:
    """A person decides, in a process of their own."""
    async with stage.runtime(*made) as place:
        await getattr(place, verb)(approval, by=by, **more)


def teller(world: World) -> Any:
    """An idempotent tool that tells people."""

    @perdure.tool(effect="idempotent", name="mail", for_model=False)
    async def mail(request: ApprovalRequest) -> Any:
        return world.act([request.id, request.tool, request.args])

    return mail
