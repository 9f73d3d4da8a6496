"""What a tool and the other side know an attempt by: its key, and the call as a body sees it.

Knows no guard and no act. The key is the same for every send of one act (law 4).
"""

from __future__ import annotations

from perdure import codec
from perdure.agent import Call
from perdure.clock import SECOND
from perdure.runtime.drive import Drive
from perdure.runtime.wanted import Wanted
from perdure.state import events as e


def call_key(drive: Drive, path: str, head: e.CallHead, round_: int) -> str:
    """The key that the other side may use to recognise this act; unchanged on a re-send."""
    return codec.digest(drive.run_id.encode(), path.encode(), head.digest, str(round_).encode()).hex()


def identity(wanted: Wanted, seconds: float) -> Call:
    """The next attempt of a call. `seconds`: how long it may take from now on; 0 for no deadline."""
    drive, tool = wanted.drive, wanted.tool
    before = drive.journal.record.calls.get(wanted.path)
    if before is not None and before.standing != "retrying":
        key = before.key
    else:
        key = call_key(drive, wanted.path, wanted.head, 0 if before is None else before.round)
    return Call(
        key=key,
        run_id=drive.run_id,
        path=wanted.path,
        attempt=1 if before is None else before.attempt + 1,
        args=wanted.args,
        model=drive.model_of(tool),
        principal=drive.principal,
        deadline=drive.host.clock.now() + int(seconds * SECOND) if seconds else None,
        tx=None,
        effect=wanted.head.effect,
        tool=tool.name,
    )
