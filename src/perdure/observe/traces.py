"""The door to OpenTelemetry traces: one trace for each run, whatever process carries it on.

Nothing of OpenTelemetry is imported before `trace` is called. The spans themselves are made in `spans`, what
is told by them is decided in `story`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.errors import ExtraMissing
from perdure.observe.content import Content
from perdure.runtime.listening import listen

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

INSTALL = 'pip install "perdure[otel]"'
"""What brings OpenTelemetry."""


def trace(provider: TracerProvider | None = None, *, content: Content | None = None) -> Callable[[], None]:
    """Tell the runs that this process drives as spans; returns what ends that.

    `provider`: of opentelemetry-sdk; None for the one that is set globally. `content`: arguments and results
    of calls are told as it makes them; None, the default, tells none. Raises ExtraMissing without the extra
    `otel`, BadSetting for a provider that records nothing.
    """
    try:
        from perdure.observe.spans import Spans
        from perdure.observe.story import Stories
    except ImportError as error:
        raise missing(error) from error
    return listen(Stories(Spans(provider), content))


def missing(error: ImportError) -> ExtraMissing:
    """What is told where OpenTelemetry is not installed."""
    return ExtraMissing(f"traces and metrics need OpenTelemetry: {error}", remedy=INSTALL)
