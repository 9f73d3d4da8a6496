"""The outside world of a crash test: one append-only file that survives every kill.

Tools write into it what they do, before they answer; each line is one write, synced. It lies outside the
store's folder and knows nothing of stores: it is what the engine is judged by.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure import codec
from perdure.agent import current_call
from perdure.testing.oracle import Act


class LostReply(ConnectionError):
    """The act happened, its answer did not arrive."""


class Outside:
    """The world in the file at `path`. Any process may open it; lines are never changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- what tools do

    def act(self, reply: Any = None, *, lose: int = 0) -> Any:
        """Do what the running call is for, durably, and answer `reply`.

        The first `lose` answers under one key do not arrive: raises LostReply. A call that is a read is
        written down too, so that it can be seen how often it was made.
        """
        call = current_call()
        line = {
            "run": call.run_id,
            "path": call.path,
            "key": call.key,
            "attempt": call.attempt,
            "effect": call.effect,
            "tool": call.tool,
            "args": codec.digest(codec.encode(dict(call.args))).hex(),
            "reply": codec.encode(reply).hex(),
        }
        earlier = sum(act.key == call.key for act in self.acts()) if lose else 0
        self._write(line)
        if earlier < lose:
            raise LostReply(f"the answer of {call.tool} was lost")
        return reply

    def note(self, run_id: str, what: str) -> None:
        """Write down something else that concerns a run and was not its doing."""
        line = dict.fromkeys(("path", "key", "args", "reply"), "")
        self._write({**line, "run": run_id, "tool": what, "attempt": 1, "effect": "read"})

    def noted(self, run_id: str, what: str) -> bool:
        """Whether it was."""
        return any(act.tool == what and not act.key for act in self.acts(run_id))

    def find(self, key: str) -> Act | None:
        """The first act under this key: what a receiver can tell a reconcile hook, or a person."""
        return next((act for act in self.acts() if act.key == key), None)

    # -- what a test looks at

    def acts(self, run_id: str | None = None) -> list[Act]:
        """Everything that was done, in order; of one run only, if it is given."""
        return [act for act in self._lines() if run_id is None or act.run_id == run_id]

    def count(self) -> int:
        """How many acts there are."""
        return sum(1 for _ in self._lines())

    def _lines(self) -> Iterator[Act]:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return
        for number, line in enumerate(text.split(b"\n")[:-1], 1):
            told = json.loads(line)
            yield Act(
                number,
                told["run"],
                told["path"],
                told["key"],
                told["attempt"],
                told["effect"],
                told["tool"],
                told["args"],
                told["reply"],
            )

    def _write(self, line: dict[str, Any]) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, json.dumps(line).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)


def reply_of(act: Act) -> Any:
    """What was answered, as plain data."""
    return codec.decode(bytes.fromhex(act.reply))
