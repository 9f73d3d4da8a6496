"""What the user declares: agents, tools, models, facts, injection, policies. `__all__` is written out.

The surface that users see, and the seam (`Call`, the scopes, `Providers`, `Door`) that the runtime
fills. Nothing here runs a step, opens a store or writes an event.
"""

import os

from perdure.agent.agent import Agent, Authorize, Door, families
from perdure.agent.declared import Declared
from perdure.agent.delegate import Delegate
from perdure.agent.handle import Run
from perdure.agent.injection import Providers, override, use
from perdure.agent.options import EFFECTS, STRICTNESS, Options, Premise, premise
from perdure.agent.outcome import Cancelled, Failed, Finished, Held, Outcome, Retired, Status, Waiting
from perdure.agent.policy import (
    FOREVER,
    Approval,
    ApprovalRequest,
    Budget,
    Durability,
    Expiry,
    Forever,
    Hybrid,
    Patience,
    Price,
    Principal,
    Rate,
    Retry,
    Storage,
    Usage,
)
from perdure.agent.schema import (
    Reply,
    ToolCall,
    one_turn,
    read_reply,
    read_tool_calls,
    read_usage,
    tool_message,
    tool_schemas,
)
from perdure.agent.scope import (
    Call,
    Scope,
    call_scope,
    current_call,
    current_steps,
    providers_scope,
    publish,
    publisher,
    step_scope,
)
from perdure.agent.tool import RESULT, Hook, Tool, fact, model, tool
from perdure.agent.verdict import Done, NotDone, Unknown
from perdure.codec.secret import Outside
from perdure.recovery.deploys import DeployPolicy
from perdure.state.events import Effect

Outside.environment = os.environ  # where a Secret's value comes from, unless a Runtime says otherwise

__all__ = [
    "EFFECTS",
    "FOREVER",
    "RESULT",
    "STRICTNESS",
    "Agent",
    "Approval",
    "ApprovalRequest",
    "Authorize",
    "Budget",
    "Call",
    "Cancelled",
    "Declared",
    "Delegate",
    "DeployPolicy",
    "Done",
    "Door",
    "Durability",
    "Effect",
    "Expiry",
    "Failed",
    "Finished",
    "Forever",
    "Held",
    "Hook",
    "Hybrid",
    "NotDone",
    "Options",
    "Outcome",
    "Patience",
    "Premise",
    "Price",
    "Principal",
    "Providers",
    "Rate",
    "Reply",
    "Retired",
    "Retry",
    "Run",
    "Scope",
    "Status",
    "Storage",
    "Tool",
    "ToolCall",
    "Unknown",
    "Usage",
    "Waiting",
    "call_scope",
    "current_call",
    "current_steps",
    "fact",
    "families",
    "model",
    "one_turn",
    "override",
    "premise",
    "providers_scope",
    "publish",
    "publisher",
    "read_reply",
    "read_tool_calls",
    "read_usage",
    "step_scope",
    "tool",
    "tool_message",
    "tool_schemas",
    "use",
]
