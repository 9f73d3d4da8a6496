"""A web server whose runs outlive it: one request starts a run, another answers it a day later.

    uvicorn app:app --port 8000                # and as many more as you like, on the same store
    curl -X POST localhost:8000/orders/o-77 -d '{"cents": 25000}'
    curl localhost:8000/orders/o-77
    curl -X POST localhost:8000/orders/o-77/answer -d '{"by": "ana", "value": true}'
    curl -X POST localhost:8000/orders/o-77/paid -d '{"id": "evt-1", "cents": 25000}'

Nothing of a run lives in a server: any of them takes any request, and any of them carries any run on. A run
that waits for a person or for the bank is a row in the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from perdure import Agent, Done, NotDone, PerdureError, Run, Runtime, current_call
from perdure.errors import IdReused, NoSuchRun, OtherGoal, RunEnded, WaitError


@dataclass
class Order:
    """What a customer wants back."""

    order_id: str
    cents: int


@dataclass
class Desk:
    """What the run knows."""

    log: list[str] = field(default_factory=list)


desk = Agent("desk", state=Desk, goal=Order, result=list, start=lambda goal: Desk())


def ledger() -> Path:
    """The bank's book, which is outside: one line for each order that it was told of."""
    return Path(os.environ.get("DESK_LEDGER", "ledger.jsonl"))


def told(key: str) -> bool:
    """Whether the bank knows this key."""
    return ledger().exists() and any(json.loads(line)["key"] == key for line in ledger().open())


@desk.tool(effect="irreversible")
def announce(order_id: str, cents: int) -> str:
    """Tell the bank that money is to be sent: once, however many servers die."""
    with ledger().open("a") as book:
        book.write(json.dumps({"order": order_id, "cents": cents, "key": current_call().key}) + "\n")
    return f"announced {cents}"


@announce.reconcile
def announced(order_id: str, cents: int) -> Done[str] | NotDone:
    """A server died inside `announce`: does the bank know of it?"""
    return Done(f"announced {cents}") if told(current_call().key) else NotDone()


@desk.step
async def step(run: Run[Desk, Order, list[str]]) -> None:
    """Ask a person, tell the bank, wait for its word."""
    order = run.goal
    question = f"Pay {order.cents} cents back for {order.order_id}?"
    if not await run.ask(question, bool, expires=timedelta(days=2), expiry="deny"):
        run.finish(["refused"])
        return
    run.state.log.append(await run.call(announce, order.order_id, order.cents))
    paid = await run.wait("paid", int, timeout=timedelta(days=30))
    run.finish([*run.state.log, f"paid {paid}"])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
    """One Runtime for the server's lifetime; its worker carries runs on."""
    async with Runtime(os.environ.get("PERDURE_STORE", "desk.db"), [desk], workers=10) as runtime:
        yield {"runtime": runtime}


async def start(request: Request) -> Response:
    """Start a run and return at once; the same request again changes nothing."""
    order = Order(request.path_params["order_id"], **await request.json())
    row = await request.state.runtime.start(desk, order.order_id, order)
    return JSONResponse({"run": row.run_id}, status_code=202)


async def look(request: Request) -> Response:
    """How a run stands, and what it waits for."""
    outcome = await request.state.runtime.outcome(request.path_params["order_id"])
    standing = {"status": outcome.status, "process": os.getpid()}
    for name in ("reasons", "result"):
        if hasattr(outcome, name):
            standing[name] = getattr(outcome, name)
    return JSONResponse(standing)


async def answer(request: Request) -> Response:
    """A person's answer, perhaps a day later, in whatever server it arrives."""
    said = await request.json()
    fresh = await request.state.runtime.answer(
        request.path_params["order_id"], said["value"], by=said["by"], id=said.get("id")
    )
    return JSONResponse({"accepted": True, "new": fresh}, status_code=202)


async def paid(request: Request) -> Response:
    """The bank's webhook. It may come twice, before the run waits for it, or while every server is down."""
    event = await request.json()
    fresh = await request.state.runtime.signal(
        request.path_params["order_id"], "paid", event["cents"], id=event["id"], by="bank"
    )
    return JSONResponse({"accepted": True, "new": fresh}, status_code=202)


async def events(request: Request) -> Response:
    """The run's durable events as server-sent events; a client that comes back goes on after the last one."""
    after = int(request.headers.get("last-event-id", "0"))
    follow = request.state.runtime.follow(request.path_params["order_id"], after=after)

    async def stream() -> AsyncIterator[str]:
        async for event in follow:
            yield f"id: {event.seq}\nevent: {event.kind}\ndata: {event.at}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


async def refused(request: Request, error: Exception) -> Response:
    """Every error of perdure has a code and says what is safe and what to do."""
    assert isinstance(error, PerdureError)
    status = 404 if isinstance(error, NoSuchRun) else 409
    said = {"code": error.code, "what": error.what, "safe": error.safe, "remedy": error.remedy}
    return JSONResponse(said, status_code=status)


app = Starlette(
    routes=[
        Route("/orders/{order_id}", start, methods=["POST"]),
        Route("/orders/{order_id}", look),
        Route("/orders/{order_id}/answer", answer, methods=["POST"]),
        Route("/orders/{order_id}/paid", paid, methods=["POST"]),
        Route("/orders/{order_id}/events", events),
    ],
    exception_handlers=dict.fromkeys((WaitError, IdReused, NoSuchRun, OtherGoal, RunEnded), refused),
    lifespan=lifespan,
)
