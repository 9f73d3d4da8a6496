"""Whose key is in context: the vault of the run that is driven, answered, looked at or told of.

A run's journal and inbox hold personal data under the run's own key alone; what goes from one run to another
(a child's goal, its result) is opened with the one and sealed with the other. A process that has never come
across a declaration of personal data asks for no key.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec.structs import replace

from perdure import codec
from perdure.cipher import KEY_BYTES
from perdure.codec.sealed import Sealed, Seen, Vault, vault_scope
from perdure.codec.sealing import any_sealed
from perdure.errors import ExtraMissing, KeyMissing
from perdure.state import events as e
from perdure.store.master import unwrapped, wrapped
from perdure.store.protocol import Inbound, Store


async def vault_of(store: Store, run_id: str, *, make: bool = False) -> Vault | None:
    """The vault of a run; None while this process knows no personal data. `make`: a key, if it has none.

    Raises RunGone where a key would be made for a run that was dropped, KeyMissing where its master key is
    not here.
    """
    if not Seen.personal:
        return None
    new = wrapped(secrets.token_bytes(KEY_BYTES)) if make else b""
    return Vault(run_id, unwrapped(run_id, await store.key(run_id, new)))


async def vault_for_look(store: Store, run_id: str) -> Vault:
    """The vault of a run that is only looked at: one without a key where this process has none for it."""
    data = await store.key(run_id)
    try:
        return Vault(run_id, unwrapped(run_id, data))
    except (KeyMissing, ExtraMissing):
        return Vault(run_id, None)


def entered(vault: Vault | None) -> AbstractContextManager[None]:
    """Within the block values are sealed and opened with this vault, if there is one."""
    return nullcontext() if vault is None else vault.entered()


def apart() -> AbstractContextManager[None]:
    """Within the block values that are only to be shown are sealed, with a key that nobody keeps."""
    return Vault("", secrets.token_bytes(KEY_BYTES)).entered()


def enter(vault: Vault | None) -> None:
    """The same for the rest of this task, and every task that it makes."""
    if vault is not None:
        vault_scope.set(vault)


async def child_started(store: Store, child: str, body: e.RunStarted) -> e.RunStarted:
    """The first event of a child, whose parent is in context, under the child's own key."""
    ours = vault_scope.get()
    theirs = None if ours is None else await vault_of(store, child, make=True)
    if ours is None or theirs is None:
        return body
    return replace(body, goal=_moved(body.goal, ours, theirs), state=_moved(body.state, ours, theirs))


async def from_child(store: Store, message: Inbound) -> Inbound:
    """What a child tells its parent, which is in context, under the parent's key."""
    ours = vault_scope.get()
    if ours is None or message.kind != "child":
        return message
    told: dict[str, Any] = codec.decode(message.data)
    end: dict[str, Any] = codec.decode(told["told"])
    theirs = await vault_of(store, told["child"])
    if theirs is None:
        return message
    value = _moved(end["value"], theirs, ours)
    return replace(message, data=codec.encode(told | {"told": codec.encode(end | {"value": value})}))


def _moved(data: bytes, source: Vault, target: Vault) -> bytes:
    """Value bytes with everything sealed in them under another key."""

    def over(node: Any) -> Any:
        kind = type(node)
        if kind is Sealed:
            if not source.holds(node):
                return node
            return target.seal(_moved(source.unseal(node), source, target))
        if kind is dict:
            return {over(key): over(item) for key, item in node.items()}
        return kind([over(item) for item in node]) if kind in (list, tuple, set, frozenset) else node

    plain = codec.decode(data)
    return codec.encode(over(plain)) if any_sealed(plain) else data
