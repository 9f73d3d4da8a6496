"""What a step costs when the state is a long conversation: argument + patch + commit, for kinds of state.

    python bench/state.py [--rounds 40] [--lengths 200 5000] [--only frozen]

Each measured step does what an agent does: hand the conversation to a model, append the reply and a tool's
result, commit. Kinds and lengths run interleaved, so that other load on the machine falls on all of them.
Printed are medians in microseconds; `best` is the fastest tenth of the total, `fold` the pure application
of the patch, `load` the restoring of the whole state. The yardstick says how fast the machine was
meanwhile: `is` over two lists of 5,000.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from operator import is_
from typing import Any, NamedTuple, TypedDict

import msgspec
from pydantic import BaseModel, ConfigDict

from perdure.codec import Shape, decode, encode, plain
from perdure.runtime.tree import LiveState
from perdure.state.patch import apply

TEXT = "The order was paid back; the customer has been told. " * 5


@dataclass(frozen=True)
class FrozenMessage:
    """A message that never changes."""

    role: str
    content: str


class FrozenStruct(msgspec.Struct, frozen=True):
    """The same as a Struct."""

    role: str
    content: str


@dataclass
class OpenMessage:
    """A message that may change."""

    role: str
    content: str


class OpenStruct(msgspec.Struct):
    """The same as a Struct."""

    role: str
    content: str


class Model(BaseModel):
    """The same as a pydantic model."""

    role: str
    content: str


class FrozenModel(BaseModel):
    """The same, frozen."""

    model_config = ConfigDict(frozen=True)

    role: str
    content: str


class Desk(TypedDict):
    """A state of dicts."""

    messages: list[dict[str, Any]]
    step: int


def boxed(kind: type) -> Any:
    """A dataclass state with a list of `kind`."""
    return make_dataclass("Box", [("messages", list[kind]), ("step", int)])  # type: ignore[valid-type]


class ModelDesk(BaseModel):
    """A pydantic state of pydantic messages."""

    messages: list[Model]
    step: int


def flat(number: int) -> dict[str, Any]:
    """A message of two texts."""
    return {"role": "user", "content": f"{number} {TEXT}"}


def nested(number: int) -> dict[str, Any]:
    """A message as providers send it."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "refund", "arguments": TEXT}}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


class Case(NamedTuple):
    """One kind of state."""

    name: str
    shape: Shape[Any]
    make: Callable[[int], Any]
    change: bool = False


CASES = [
    Case("frozen dataclass", Shape.of(boxed(FrozenMessage)), lambda n: FrozenMessage(**flat(n))),
    Case("frozen Struct", Shape.of(boxed(FrozenStruct)), lambda n: FrozenStruct(**flat(n))),
    Case("frozen pydantic", Shape.of(boxed(FrozenModel)), lambda n: FrozenModel(**flat(n))),
    Case("dict, two texts", Shape.of(Desk), flat),
    Case("dict, tool calls", Shape.of(Desk), nested),
    Case("dict, last one changed", Shape.of(Desk), flat, change=True),
    Case("mutable dataclass", Shape.of(boxed(OpenMessage)), lambda n: OpenMessage(**flat(n))),
    Case("mutable Struct", Shape.of(boxed(OpenStruct)), lambda n: OpenStruct(**flat(n))),
    Case("mutable pydantic", Shape.of(boxed(Model)), lambda n: Model(**flat(n))),
    Case("pydantic state", Shape.of(ModelDesk), lambda n: Model(**flat(n))),
]


class Trial:
    """One case at one length, kept at that length: what a step appends is dropped before the next."""

    def __init__(self, case: Case, length: int) -> None:
        self.case = case
        stored = {"messages": [plain(case.make(number)) for number in range(length)], "step": 0}
        started = time.perf_counter_ns()
        self.state = LiveState(case.shape, stored)
        self.load = (time.perf_counter_ns() - started) / 1000
        self.plain: Any = stored
        self.length = length
        self.steps = 0
        self.times: dict[str, list[float]] = {"argument": [], "patch": [], "commit": [], "fold": []}

    def messages(self) -> Any:
        """The live list."""
        live = self.state.live
        return live["messages"] if isinstance(live, dict) else live.messages

    def step(self) -> None:
        """One step, measured."""
        self.steps += 1
        clock = time.perf_counter_ns
        reply = self.case.make(self.length + self.steps)
        values = {7: encode(reply)}
        messages = self.messages()
        t0 = clock()
        reference = self.state.argument(messages, values)
        t1 = clock()
        if self.case.change:
            messages[-1]["content"] += "."
        messages.append(reply)
        messages.append(self.case.make(-self.steps))
        t2 = clock()
        patch = self.state.patch(values)
        t3 = clock()
        self.plain = apply(self.plain, patch, values, decode)
        t4 = clock()
        self.state.commit(self.plain, patch)
        t5 = clock()
        for name, begin, end in (
            ("argument", t0, t1),
            ("patch", t2, t3),
            ("fold", t3, t4),
            ("commit", t4, t5),
        ):
            self.times[name].append((end - begin) / 1000)
        assert reference is not None
        assert reference[0].count == self.length
        self.back()
        assert len(self.messages()) == len(self.plain["messages"])

    def back(self) -> None:
        """Drop the two messages again, not measured."""
        del self.messages()[-2:]
        patch = self.state.patch({})
        self.plain = apply(self.plain, patch, {}, decode)
        self.state.commit(self.plain, patch)

    def row(self) -> tuple[float, ...]:
        """Medians of argument, patch, commit, their sum and the fold; the best; the load."""
        times = self.times
        parts = [statistics.median(times[name]) for name in ("argument", "patch", "commit")]
        sums = [sum(step) for step in zip(times["argument"], times["patch"], times["commit"], strict=True)]
        best = sorted(sums)[len(sums) // 10]
        return *parts, statistics.median(sums), statistics.median(times["fold"]), best, self.load


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=40)
    options.add_argument("--lengths", type=int, nargs="*", default=[20, 200, 800, 5000])
    options.add_argument("--only", default="")
    given = options.parse_args()
    cases = [case for case in CASES if given.only in case.name]
    trials = [Trial(case, length) for length in given.lengths for case in cases]
    gc.collect()
    gc.freeze()
    for _ in range(3):
        for trial in trials:
            trial.step()
            trial.times = {name: [] for name in trial.times}
    yardstick = []
    one = [object() for _ in range(5000)]
    other = one.copy()
    for _ in range(given.rounds):
        begun = time.perf_counter_ns()
        assert all(map(is_, one, other))
        yardstick.append((time.perf_counter_ns() - begun) / 1000)
        for trial in trials:
            trial.step()
    print(f"yardstick {statistics.median(yardstick):.0f} us, {given.rounds} rounds")
    head = ("state", "messages", "argument", "patch", "commit", "total", "fold", "best", "load")
    print("{:<24}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}".format(*head))
    for trial in trials:
        numbers = "{:>10.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>11.0f}".format(*trial.row())
        print(f"{trial.case.name:<24}{trial.length:>9}{numbers}")


if __name__ == "__main__":
    main()
