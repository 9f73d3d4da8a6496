"""A call that only a person can settle: its hold, and a person's result that its tool could never have given.

Such a result is not taken: the call stays unknown and the run held, so that it can be answered again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.agent import Agent, Tool
from perdure.codec.sealing import unwrapped
from perdure.errors import ShapeMismatch
from perdure.state import events as e
from perdure.state.record import CallRecord, RunRecord
from perdure.state.undo import undone_path
from perdure.store.protocol import Inbound


def unknown_hold(run_id: str, call: CallRecord, detail: str) -> e.RunHeld:
    """The hold of a call that only a person can settle."""
    remedies: tuple[str, ...] = (
        f"perdure resolve {run_id} {call.path} --done RESULT",
        f"perdure resolve {run_id} {call.path} --not-done",
        f"perdure resolve {run_id} {call.path} --failed MESSAGE",
    )
    if call.cause == "restored" and call.standing == "unknown":
        sure = f"perdure release {run_id} --sure    nothing was done that this store does not know"
        remedies = (*remedies, sure)
    raised = f"; it raised {call.detail}" if call.detail else ""
    return e.RunHeld("unknown-outcome", detail + raised, remedies, call.path)


def unlisted(run_id: str, agent: str, call: CallRecord) -> e.RunHeld:
    """The hold of an unknown call whose tool is gone: nobody can be asked what became of it."""
    detail = f"call {call.path} has no known outcome; {agent} no longer lists {call.name}"
    return unknown_hold(run_id, call, detail)


def misfit(agent: Agent[Any, Any, Any], record: RunRecord, message: Inbound, run_id: str) -> e.RunHeld | None:
    """The hold in place of a person's result that does not fit what the tool declares to return."""
    data: dict[str, Any] = codec.decode(message.data)
    call = record.calls.get(str(data["path"]))
    tool = None if call is None else tool_of(agent, record, call)
    if call is None or tool is None or data["verdict"] != "done" or not resolvable(call):
        return None
    try:
        fit(tool, codec.decode(data["value"]))
    except ShapeMismatch as error:
        return unknown_hold(run_id, call, f"[{error.code}] {error.what} (said by {data['by']})")
    return None


def by_types(agent: Agent[Any, Any, Any], record: RunRecord, message: Inbound) -> Inbound:
    """A person's result as its tool would have given it, now that its types are at hand; what fits none of
    them, and every other message, as it is.
    """
    if message.kind != "resolve":
        return message
    data: dict[str, Any] = codec.decode(message.data)
    call = record.calls.get(str(data["path"]))
    tool = None if call is None else tool_of(agent, record, call)
    if tool is None or data["verdict"] != "done":
        return message
    with suppress(ShapeMismatch):
        value = codec.encode(fit(tool, codec.decode(data["value"])))
        return replace(message, data=codec.encode(data | {"value": value}))
    return message


def resolvable(call: CallRecord) -> bool:
    """Whether a person may say what became of it: nobody knows, or it is an undo that did not work."""
    if call.standing in ("open", "unknown"):
        return True
    return bool(undone_path(call.path)) and not call.settled


def tool_of(agent: Agent[Any, Any, Any], record: RunRecord, call: CallRecord) -> Tool[..., Any] | None:
    """What a recorded call calls, in today's code."""
    undone = undone_path(call.path)
    act = next((act for act in record.undo or () if act.path == undone), None)
    return agent.tool_named(call.name) if act is None else undo_of(agent, act.name)


def undo_of(agent: Agent[Any, Any, Any], name: str) -> Tool[..., Any] | None:
    """What undoes the acts of the tool of this name, in today's code."""
    tool = agent.tool_named(name)
    return None if tool is None else tool.undo_hook


def fit(tool: Tool[..., Any], given: Any) -> Any:
    """What a person gives for the tool's result, as plain data that the tool could have returned.

    Raises ShapeMismatch (M301) where it is none.
    """
    try:
        return tool.result_shape.taken(unwrapped(given), where="$.result")
    except ShapeMismatch as error:
        raise ShapeMismatch(
            f"this result is none that {tool.name} returns: {error.what}",
            safe="The call is as unknown as before.",
            remedy=f"give a value of the type that {tool.name} declares to return: {_declared(tool)}",
            where=tool.source,
        ) from error


def _declared(tool: Tool[..., Any]) -> str:
    found = getattr(tool.fn, "__annotations__", {}).get("return", "anything")
    return found if isinstance(found, str) else getattr(found, "__name__", str(found))
