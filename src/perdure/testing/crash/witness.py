"""A store that writes down what it has acknowledged, so that nothing acknowledged can be lost unnoticed.

Each acknowledgement is one line in a file that is opened for appending: an event's number and chain digest
when its append is done, a message's id and position when it is accepted, an outcome when a caller has got
it. A line is written before whoever waits for the acknowledgement can go on.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from msgspec.structs import replace

from perdure.store.protocol import Appended, Batch, Delivered, Message, NewRun, RunRow, Store, Stored, Tx


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What was promised: events by run and number with their digests, messages by run and position, outcomes.

    `before` tells for each event the newest cancel that was accepted before it (0: none): a call that is
    intended after that must have read it.
    """

    events: dict[tuple[str, int], str]
    messages: dict[tuple[str, int], str]
    told: dict[str, str]
    before: dict[tuple[str, int], int]


class Acknowledgements:
    """The file of acknowledgements at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def write(self, **line: Any) -> None:
        """Append one line."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.write(self._fd, json.dumps(line).encode() + b"\n")

    def read(self) -> Acknowledged:
        """Everything that was acknowledged so far."""
        found = Acknowledged({}, {}, {}, {})
        cancels: dict[str, int] = {}
        text = self._path.read_bytes() if self._path.exists() else b""
        for raw in text.split(b"\n")[:-1]:
            line = json.loads(raw)
            if "seq" in line:
                found.events[line["run"], line["seq"]] = line["digest"]
                found.before[line["run"], line["seq"]] = cancels.get(line["run"], 0)
            elif "message" in line:
                found.messages[line["run"], line["position"]] = line["message"]
                if line["kind"] == "cancel":
                    cancels[line["run"]] = line["position"]
            else:
                found.told[line["run"]] = line["status"]
        return found


class Witness:
    """The store `inner`, and a line for everything that it acknowledges. Use `witnessed`."""

    def __init__(self, inner: Store, told: Acknowledgements) -> None:
        self._inner = inner
        self._told = told

    def __getattr__(self, name: str) -> Any:
        """Everything else is the inner store's."""
        return getattr(self._inner, name)

    def append(self, batch: Batch) -> asyncio.Future[Appended]:
        """As the inner store's; when it is done, its events are written down before anyone else learns of
        it.
        """
        events = list(batch.events)
        if batch.act is not None:
            batch = replace(batch, act=_noting(batch.act, events))
        future = self._inner.append(batch)
        future.add_done_callback(lambda done: self._done(done, batch.run_id, events))
        return future

    def _done(self, done: asyncio.Future[Appended], run_id: str, events: Sequence[Stored]) -> None:
        if not done.cancelled() and done.exception() is None:
            self._note(run_id, events)

    def _note(self, run_id: str, events: Sequence[Stored]) -> None:
        for event in events:
            self._told.write(run=run_id, seq=event.seq, digest=event.digest.hex())

    async def create(self, run: NewRun) -> tuple[RunRow, bool]:
        """As the inner store's."""
        row, made = await self._inner.create(run)
        if made:
            self._note(run.run_id, run.events)
        return row, made

    async def deliver(self, message: Message) -> Delivered:
        """As the inner store's."""
        delivered = await self._inner.deliver(message)
        self._told.write(
            run=message.run_id, message=message.id, kind=message.kind, position=delivered.position
        )
        return delivered


def _noting(act: Callable[[Tx], Sequence[Stored]], into: list[Stored]) -> Callable[[Tx], Sequence[Stored]]:
    def noting(tx: Tx) -> Sequence[Stored]:
        events = act(tx)
        into.extend(events)
        return events

    return noting


def witnessed(inner: Store, told: Acknowledgements) -> Store:
    """The store, with every acknowledgement written down in `told`."""
    return cast(Store, Witness(inner, told))
