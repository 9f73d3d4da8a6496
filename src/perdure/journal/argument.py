"""What a recorded argument stands for: itself, a part of a recorded value, or a list of the state."""

from __future__ import annotations

from typing import Any

from perdure import codec
from perdure.state import events as e


def resolve(state: Any, argument: e.Argument, values: dict[int, bytes]) -> Any:
    """A recorded argument as plain data. `state`: the run's committed state; `values`: by event, what the
    open step has recorded.
    """
    match argument:
        case e.Ref():
            return codec.decode(values[argument.seq][argument.start : argument.start + argument.length])
        case e.StateList():
            place = state
            for key in argument.path:
                place = place[codec.decode(key.data) if isinstance(key, e.OddKey) else key]
            return [*place[: argument.count], *(resolve(state, item, values) for item in argument.extra)]
        case e.Omitted():
            return f"({argument.size} bytes, not kept)"
        case _:
            return codec.decode(argument)
