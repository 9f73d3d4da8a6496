"""What of a step's change may be written: nothing that the store would not take, and no secret."""

from __future__ import annotations

import msgspec

from perdure.codec.redaction import refuse_leak
from perdure.errors import NotStorable
from perdure.runtime.scribe import place_of
from perdure.state import events as e


def check_sizes(patch: tuple[e.Op, ...], most: int) -> None:
    """Refuse a change that the store would not take. Raises NotStorable."""
    for op in patch:
        values = op.values if type(op) is e.Splice else (op.value,) if type(op) is e.Set else ()
        for value in values:
            if type(value) is bytes and len(value) > most:
                place = place_of(op.path)
                what = f"a change at {place} has {len(value)} bytes; the store takes at most {most}"
                remedy = "keep the large thing elsewhere (a file, an object store), its address in the state"
                raise NotStorable(what, remedy=remedy, path=place, type_name="")


def check_leaks(patch: tuple[e.Op, ...]) -> None:
    """Refuse a change that would write a secret down. Raises SecretLeaked."""
    for op in patch:
        refuse_leak(msgspec.msgpack.encode(op), place_of(op.path))
