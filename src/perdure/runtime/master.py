"""The master keys of a process: they wrap the keys of runs, and are kept apart from the store.

`PERDURE_KEY` holds them, separated by commas: 32 bytes in base64 each, or `file:PATH` of such a text. The
first one wraps; all of them unwrap, so that a new one is put in front of the old. Without any, keys lie in
the store as they are. A wrapped key names its master; another one is never tried, and nothing falls back to
none.
"""

from __future__ import annotations

import base64
import binascii
import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from perdure.codec.sealed import KEY_BYTES, aes_gcm
from perdure.errors import BadSetting, Damaged, KeyMissing

VARIABLE = "PERDURE_KEY"
"""The environment variable."""

_MARK, _KID, _NONCE = b"\x01", 8, 12
_ABOUT = b"perdure master 1"


class Master:
    """One master key. `name`: 16 hex digits, derived from it, by which errors and wrapped keys call it."""

    def __init__(self, key: bytes) -> None:
        self._kid = blake2b(key, digest_size=_KID, person=b"perdure name").digest()
        self._nonces = blake2b(key, digest_size=KEY_BYTES, person=b"perdure nonce").digest()
        self._cipher: Any = aes_gcm()(blake2b(key, digest_size=KEY_BYTES, person=b"perdure wrap").digest())
        self.name = self._kid.hex()

    def wrap(self, key: bytes) -> bytes:
        """A run's key, wrapped; the same bytes each time, so that who shares a key is seen to."""
        nonce = blake2b(key, digest_size=_NONCE, key=self._nonces).digest()
        wrapped: bytes = self._cipher.encrypt(nonce, key, _ABOUT)
        return _MARK + self._kid + nonce + wrapped

    def unwrap(self, data: bytes) -> bytes:
        """The run's key again."""
        start = 1 + _KID
        try:
            key: bytes = self._cipher.decrypt(data[start : start + _NONCE], data[start + _NONCE :], _ABOUT)
        except Exception as error:
            if type(error).__name__ not in ("InvalidTag", "ValueError"):
                raise
            raise Damaged(f"a key that is wrapped by the master key {self.name} does not open") from None
        return key


def masters() -> tuple[Master, ...]:
    """This process's, the one that wraps first. Raises BadSetting, which shows nothing of them."""
    return _read(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=8)
def _read(text: str) -> tuple[Master, ...]:
    return tuple(Master(_key(part.strip())) for part in text.split(",") if part.strip())


def _key(text: str) -> bytes:
    if text.startswith("file:"):
        path = Path(text.removeprefix("file:"))
        try:
            text = path.read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise BadSetting(f"{VARIABLE}: {path} cannot be read: {type(error).__name__}") from None
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadSetting(
            f"{VARIABLE} holds something that is no key",
            remedy="a key is 32 random bytes in base64: openssl rand -base64 32",
        ) from None
    return key


def wrapped(key: bytes) -> bytes:
    """A new key as the store keeps it."""
    found = masters()
    return found[0].wrap(key) if found else key


def unwrapped(run_id: str, data: bytes | None) -> bytes | None:
    """A run's key, of what the store keeps: None if there is none, empty if it was destroyed.

    Raises KeyMissing, which names the master key that this process lacks.
    """
    if not data or not data.startswith(_MARK) or len(data) == KEY_BYTES:
        return data
    name = data[1 : 1 + _KID].hex()
    for master in masters():
        if master.name == name:
            return master.unwrap(data)
    what = f"the key of run {run_id} is wrapped by the master key {name}, which {VARIABLE} does not have"
    raise KeyMissing(what, run_id=run_id, master=name)
