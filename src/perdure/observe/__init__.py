"""What runs do, told to the outside: log records, OpenTelemetry traces and metrics. Told, never asked.

Everything here is made of durable events, by listeners of `runtime.listening`; it decides nothing, keeps
nothing, and can harm no run. `logs` needs nothing but the standard library; `traces` and `metrics` need the
extra `otel`, which is imported only when they are asked for.
"""

from __future__ import annotations

from perdure.observe.logs import JsonFormatter, Placed, QuietInReplay, TextFormatter, tell
from perdure.observe.metrics import measure, watch
from perdure.observe.traces import trace

__all__ = [
    "JsonFormatter",
    "Placed",
    "QuietInReplay",
    "TextFormatter",
    "measure",
    "tell",
    "trace",
    "watch",
]
