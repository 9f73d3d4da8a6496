"""What may be shown: the one place that every face, log, trace and error asks.

`redacted` makes a text safe, `shown` a value. What they hide: the values of secrets that this process has
used, in the forms of `secret.written_forms`. Judges nothing: what may be kept is decided where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from perdure.codec.personal import opened
from perdure.codec.plain import ATOMS
from perdure.codec.record import record_items
from perdure.codec.sealed import Sealed, vault_scope
from perdure.codec.secret import KNOWN, Secret, mark_of
from perdure.errors import SecretLeaked


def redacted(text: str) -> str:
    """The text with a mark such as `[secret STRIPE_KEY]` in the place of each known value of a secret."""
    return KNOWN.without(text) if KNOWN.forms else text


def shown(value: Any) -> Any:
    """Plain data as it may be shown: texts redacted, a Secret as its mark."""
    if type(value) is Secret:
        return mark_of(value.name)
    if type(value) is Sealed:
        return of_sealed(value)
    return _mapped(value, shown) if type(value) in _HOLDERS else _without(value)


def of_sealed(sealed: Sealed) -> Any:
    """What is shown of personal data: `[personal]`, `[erased]` once its key is destroyed, and the value, as
    plain data, to whoever looks with `revealing`.
    """
    vault = vault_scope.get()
    if vault is not None and vault.erased:
        return "[erased]"
    if vault is None or not revealed_scope.get():
        return str(sealed)
    return opened(sealed).reveal()


@contextmanager
def revealing(really: bool = True) -> Iterator[None]:
    """Within the block personal data of the run in context is shown as it is."""
    token = revealed_scope.set(really)
    try:
        yield
    finally:
        revealed_scope.reset(token)


revealed_scope: ContextVar[bool] = ContextVar("perdure_revealed", default=False)
"""Whether this look was asked to show personal data."""


def without_secrets(value: Any) -> Any:
    """Plain data as it may be kept: texts and bytes redacted; a Secret stays one."""
    return _mapped(value, without_secrets) if type(value) in _HOLDERS else _without(value)


def secrets_in(value: Any) -> Iterator[Secret[Any]]:
    """The Secrets in a value, however deep it holds them; what is no record and no container holds none."""
    kind = type(value)
    if kind is Secret:
        yield value
    elif kind is dict:
        for key, item in value.items():
            yield from secrets_in(key)
            yield from secrets_in(item)
    elif kind in _HOLDERS:
        for item in value:
            yield from secrets_in(item)
    elif kind not in ATOMS and (fields := record_items(value)) is not None:
        for _, item in fields:
            yield from secrets_in(item)


def refuse_leak(data: bytes, where: str) -> None:
    """Raise SecretLeaked if these bytes, of a value or a body, contain the value of a secret."""
    if KNOWN.forms and (name := KNOWN.found_in(data)) is not None:
        raise SecretLeaked(f"{where} contains the value of the secret {name}", where=where, name=name)


_HOLDERS = frozenset({dict, list, tuple, set, frozenset})


def _mapped(value: Any, change: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {change(key): change(item) for key, item in value.items()}
    return kind([change(item) for item in value])


def _without(value: Any) -> Any:
    if type(value) is str:
        return redacted(value)
    if type(value) is bytes and KNOWN.forms and (name := KNOWN.found_in(value)) is not None:
        return mark_of(name).encode()
    return value
