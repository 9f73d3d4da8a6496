"""perdure: durable state for LLM agents. They survive crashes, deploys, lost replies and day-long waits.

The names are loaded when the first of them is used, so that a command that only looks at runs starts quickly.
"""

from typing import TYPE_CHECKING, Any

from perdure.errors import CallFailed, LeftUnknown, PerdureError, PremiseChanged

if TYPE_CHECKING:
    from perdure.agent import (
        FOREVER,
        Agent,
        Approval,
        ApprovalRequest,
        Budget,
        Call,
        Cancelled,
        DeployPolicy,
        Done,
        Failed,
        Finished,
        Held,
        Hybrid,
        NotDone,
        Outcome,
        Price,
        Principal,
        Rate,
        Retired,
        Retry,
        Run,
        Tool,
        Unknown,
        Usage,
        Waiting,
        current_call,
        fact,
        model,
        override,
        premise,
        publish,
        tool,
        use,
    )
    from perdure.codec.personal import Personal
    from perdure.codec.secret import Secret
    from perdure.host import Runtime
    from perdure.runtime.chunks import Chunk, Reset
    from perdure.runtime.forecast import Forecast, Preflight
    from perdure.timeline.change import Change
    from perdure.timeline.fork import Fork, OriginalAct
    from perdure.timeline.replayed import Replayed, Replays
    from perdure.timeline.simulated import Simulated
    from perdure.worker import Serving

__all__ = [
    "FOREVER",
    "Agent",
    "Approval",
    "ApprovalRequest",
    "Budget",
    "Call",
    "CallFailed",
    "Cancelled",
    "Change",
    "Chunk",
    "DeployPolicy",
    "Done",
    "Failed",
    "Finished",
    "Forecast",
    "Fork",
    "Held",
    "Hybrid",
    "LeftUnknown",
    "NotDone",
    "OriginalAct",
    "Outcome",
    "PerdureError",
    "Personal",
    "Preflight",
    "PremiseChanged",
    "Price",
    "Principal",
    "Rate",
    "Replayed",
    "Replays",
    "Reset",
    "Retired",
    "Retry",
    "Run",
    "Runtime",
    "Secret",
    "Serving",
    "Simulated",
    "Tool",
    "Unknown",
    "Usage",
    "Waiting",
    "current_call",
    "fact",
    "model",
    "override",
    "premise",
    "publish",
    "tool",
    "use",
]

if not TYPE_CHECKING:  # a type checker sees the imports above, and so refuses a misspelled name

    def __getattr__(name: str) -> Any:
        """Load what runs agents, and with it nearly every name of `__all__`."""
        if name not in __all__:
            raise AttributeError(f"module 'perdure' has no attribute {name!r}")
        if name == "Personal":  # whoever asks for it has personal data: its runs get a key from their start
            from perdure.codec import personal, sealed

            sealed.Seen.personal = True
            return personal.Personal
        from perdure import agent, host
        from perdure.codec import secret

        _take(agent, host, secret)
        if name not in globals():  # of a run's past or future, which whoever drives runs need not know
            from perdure.runtime import forecast
            from perdure.timeline import change, fork, replayed, simulated

            _take(forecast, replayed, simulated, change, fork)
        return globals()[name]

    def _take(*rooms: Any) -> None:
        for room in rooms:
            globals().update({own: getattr(room, own) for own in __all__ if hasattr(room, own)})

    def __dir__() -> list[str]:
        """Every name, loaded or not."""
        return sorted({*globals(), *__all__})
