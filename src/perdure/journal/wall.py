"""The last wall before bytes: the value of a secret that got so far is not written.

What the run's own code made (arguments, state) was refused where it came from; what the outside said
(results, errors, messages, notes) is redacted, here if nobody did before. Nothing is looked at while this
process knows no secret.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from perdure import codec
from perdure.codec.redaction import redacted, refuse_leak, without_secrets
from perdure.codec.secret import KNOWN
from perdure.journal.outline import legible, map_texts, map_values
from perdure.state import events as e

_MADE_HERE = (e.StepCommitted, e.CallIntended, e.ApprovalRequested, e.RunStarted, e.RunMigrated)
"""Facts whose values the run's code made: other values in their place would be another run."""


def behind_wall(body: e.AnyBody) -> e.AnyBody:
    """The fact without the values of known secrets. Raises SecretLeaked where it cannot be without."""
    if not KNOWN.forms or KNOWN.found_in(_bytes(body)) is None:
        return body
    if isinstance(body, _MADE_HERE):
        refuse_leak(_bytes(body), f"{e.kind_of(body)}")
    texts: Callable[[Any], Any] = redacted
    changed: e.AnyBody = map_values(map_texts(body, texts), _value)
    return changed


def _bytes(body: e.AnyBody) -> bytes:
    """All that a fact says; a note that is no proper text is made legible, as it is when it is written."""
    try:
        return msgspec.msgpack.encode(body)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(legible(body))


def _value(data: bytes) -> bytes:
    if KNOWN.found_in(data) is None:
        return data
    return codec.encode(without_secrets(codec.decode(data)))
