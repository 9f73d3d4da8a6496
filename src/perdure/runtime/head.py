"""Which call it is: its arguments as they are stored, and a digest over its name and them.

What the step has recorded already is referred to. An argument that the store would not take is refused here,
where it comes from.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from perdure import codec
from perdure.agent import Tool
from perdure.codec.redaction import refuse_leak
from perdure.errors import NotStorable
from perdure.runtime.drive import Drive
from perdure.runtime.execution import Execution
from perdure.runtime.tree import argument_digest
from perdure.state import events as e
from perdure.state.fold import recorded_values
from perdure.state.record import RunRecord

REF_BYTES = 24
"""An argument at least so long is looked for in what the step has recorded already."""

NEAR = 128
"""Where a step has recorded more than so many calls and waits, only its newest calls are looked through."""

KEPT_BYTES = 128
"""A longer argument of a read is digested and not kept: repeating the read takes today's."""


def head_of(
    execution: Execution, tool: Tool[..., Any], args: dict[str, Any], name_then: str | None = None
) -> e.CallHead:
    """Which call it is: arguments as stored, and a digest over name and arguments.

    `name_then`: the name under which the call is recorded, if its tool has another one today.
    """
    called = name_then or tool.name
    recorded, digests = [], [called.encode("utf-8", "surrogatepass")]
    left_out: dict[str, bytes] = {}
    values, effect = _near(execution.journal.record), tool.effect_of(args)
    for name, value in args.items():
        argument, digest = _argument(execution, name, value, values)
        if isinstance(argument, bytes) and len(argument) > KEPT_BYTES:
            if effect == "read" and tool.options.approval is None:  # else a person must see it
                left_out[name] = argument
                argument = e.Omitted(len(argument))
            else:
                check_size(execution.drive, argument, value, f"$.{name}")
        recorded.append((name, argument))
        digests.append(name.encode())
        digests.append(digest)
    head = e.CallHead(called, effect, tuple(recorded), codec.digest(*digests))
    if left_out and execution.drive.check:
        execution.kept[head.digest] = left_out
    return head


def _near(record: RunRecord) -> dict[int, bytes]:
    """What the step has recorded, as far as it is looked through: of thousands of calls each would otherwise
    look through all before it.
    """
    if len(record.calls) + len(record.waits) <= NEAR:
        return recorded_values(record)
    newest = list(islice(reversed(record.calls.values()), NEAR))
    return {call.seq: call.value for call in reversed(newest) if call.seq}


def _argument(execution: Execution, name: str, value: Any, values: Any) -> tuple[e.Argument, bytes]:
    if isinstance(value, list):
        known = execution.live.argument(value, values)
        if known is not None:
            for item in known[0].extra:
                if isinstance(item, bytes):
                    refuse_leak(item, f"the argument {name}")
            return known
    data = codec.encode(value, where=f"$.{name}")
    refuse_leak(data, f"the argument {name}")
    digest = argument_digest(value) if isinstance(value, list) else codec.digest(data)
    if len(data) >= REF_BYTES:
        for seq, stored in values.items():
            start = stored.find(data)
            if start >= 0:
                return e.Ref(seq, start, len(data)), digest
    return data, digest


def check_size(drive: Drive, data: bytes, value: Any, where: str) -> None:
    """Refuse what the store would not take, where it comes from. Raises NotStorable."""
    most = drive.host.store.value_bytes
    if len(data) > most:
        raise NotStorable(
            f"{where} has {len(data)} bytes; the store takes at most {most}",
            remedy="keep the large thing elsewhere (a file, an object store) and pass on its address",
            path=where,
            type_name=type(value).__name__,
        )
