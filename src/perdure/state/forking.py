"""The facts by which a run begins as a fork, and comes to terms with what its origin has done since.

Only their forms; what they do to a run is `fork`. `events` gives all of these names on.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from perdure.state.amount import Limits
from perdure.state.parts import Body, Effect, Op

Effects: TypeAlias = Literal["ask", "simulate", "redo"]
"""What a fork does about calls that act: ask a person about those that its origin has made already; send
none, and take its origin's results; send them all."""

Standin: TypeAlias = Literal["reuse", "act", "simulate"]
"""What is done about one of them: its origin's result is taken, it is really made, or a given result is."""


class OriginAct(Struct, frozen=True, array_like=True, gc=False):
    """An act that a fork's origin made after the point, or a child that it spawned there and that acts.

    `digest`: of tool name and arguments, of a child of its agent and goal. `outcome`: done, failed, unknown
    or not_done; `value`: its result, its error, what the child told. `args` as value bytes; one that is too
    long to be kept here is empty. `run`: in which run it was made. `seq` and `at`: the event that began it
    there. `acts`: of a child, how many acts it has made. `undone`: it was taken back since.
    """

    path: str
    name: str
    effect: Effect
    digest: bytes
    outcome: str
    value: bytes
    args: tuple[tuple[str, bytes], ...]
    run: str
    seq: int
    at: int
    child: str = ""
    acts: int = 0
    undone: bool = False


class RunForked(Body, frozen=True, array_like=True, tag="run.forked"):
    """The run is a fork of `run`, of whose events those before this one are copies: what follows is its own.

    What was changed: `goal` (value bytes, empty if it is the same), `patch` of the state, `given` (calls and
    waits of the open step that are open again, and whose outcomes follow), `models` (declared model functions
    and the models that they call from now on), `budget` (None: the limits stand as they stood). `acts`: what
    the origin did after the point, up to its event `seen`. `by`: who
    forked. `origin_trace`: the trace of `run`.
    """

    run: str
    trace: str
    by: str
    effects: Effects
    goal: bytes = b""
    patch: tuple[Op, ...] = ()
    given: tuple[str, ...] = ()
    models: tuple[tuple[str, str], ...] = ()
    budget: Limits | None = None
    acts: tuple[OriginAct, ...] = ()
    seen: int = 0
    origin_trace: str = ""


class EffectAsked(Body, frozen=True, array_like=True, tag="effect.asked"):
    """A fork wants to make a call of this `digest`, and what is done about it is to be decided first.

    `act`: which of the acts of its origin it matches (their place in `run.forked`, from 0), -1 for none.
    """

    path: str
    act: int
    digest: bytes


class EffectDecided(Body, frozen=True, array_like=True, tag="effect.decided"):
    """What is done about it. `value`: the given result, as value bytes. `by`: who says so, or `effects`."""

    path: str
    how: Standin
    by: str
    value: bytes = b""
    note: str = ""
