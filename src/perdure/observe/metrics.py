"""The door to OpenTelemetry metrics: what runs cost, how long commits take, what needs a person.

Nothing of OpenTelemetry is imported before `measure` is called; the instruments are in `instruments`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING

from perdure.observe.traces import missing
from perdure.runtime.listening import listen
from perdure.store.protocol import Store

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider

    from perdure.observe.instruments import Instruments

_measured: list[Instruments] = []

WATCH_SECONDS = 15.0
"""How often open runs are counted for the gauge."""


def measure(provider: MeterProvider | None = None) -> Callable[[], None]:
    """Count what the runs that this process drives do; returns what ends that.

    `provider`: None for the one that is set globally. Raises ExtraMissing without the extra `otel`.
    """
    try:
        from perdure.observe.instruments import Instruments
    except ImportError as error:
        raise missing(error) from error
    made = Instruments(provider)
    end = listen(made)
    _measured.append(made)

    def stop() -> None:
        end()
        if made in _measured:
            _measured.remove(made)

    return stop


def watch(store: Store, seconds: float = WATCH_SECONDS) -> AbstractAsyncContextManager[None]:
    """Count the store's open runs by status and reason every so often, for the gauge `perdure.runs.open`.

    Does nothing unless `measure` was called. For one process of many: each would count the same runs.
    """
    if not _measured:
        return nullcontext()
    from perdure.observe.instruments import counted

    return counted(store, _measured[-1], seconds)
