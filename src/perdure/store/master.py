"""The master keys of a process, which are kept apart from the store: they wrap the keys of runs, and seal
what an encrypted store keeps.

`PERDURE_KEY` holds them, separated by commas: 32 bytes in base64 each, or `file:PATH` of such a text. The
first one wraps and seals; all of them open, so that a new one is put in front of the old. Without any, keys
lie in the store as they are. What is under a master names it; another one is never tried, and nothing falls
back to none.

The values of an encrypted store are sealed by a key of their run, derived from the master (`RunCipher`), with
a nonce at random: whatever is written twice at one place, a batch that was refused and its successor, shares
no nonce, and no run has so many values that two could. It knows bytes and names, and no store.
"""

from __future__ import annotations

import base64
import binascii
import os
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from perdure.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, aes_gcm, opened
from perdure.errors import BadSetting, Damaged, KeyMissing

VARIABLE = "PERDURE_KEY"
"""The environment variable."""

KID_BYTES = 8
"""Bytes of the name of a master key."""

_WRAPPED, _SEALED = b"\x01", b"\xe1"
_HEAD = 1 + KID_BYTES + NONCE_BYTES
_ABOUT = b"perdure master 1"

MORE_BYTES = _HEAD + TAG_BYTES
"""So much longer is a value when it is sealed."""


class Master:
    """One master key. `kid`: 8 bytes, derived from it, by which what is under it calls it; `name`: the same
    in hexadecimal.
    """

    def __init__(self, key: bytes) -> None:
        self.kid = blake2b(key, digest_size=KID_BYTES, person=b"perdure name").digest()
        self.name = self.kid.hex()
        self._nonces = blake2b(key, digest_size=KEY_BYTES, person=b"perdure nonce").digest()
        self._runs = blake2b(key, digest_size=KEY_BYTES, person=b"perdure store").digest()
        self._cipher: Any = aes_gcm(VARIABLE)(
            blake2b(key, digest_size=KEY_BYTES, person=b"perdure wrap").digest()
        )

    def of_run(self, run_id: str) -> RunCipher:
        """What seals the values of one run."""
        return _of_run(self, run_id)

    def secret_of(self, run_id: str, use: bytes) -> bytes:
        """A key of one run for one use."""
        text = run_id.encode("utf-8", "surrogatepass")
        return blake2b(text, digest_size=KEY_BYTES, key=self._runs, person=use).digest()

    def wrap(self, key: bytes) -> bytes:
        """A run's key, wrapped; the same bytes each time, so that who shares a key is seen to."""
        nonce = blake2b(key, digest_size=NONCE_BYTES, key=self._nonces).digest()
        wrapped: bytes = self._cipher.encrypt(nonce, key, _ABOUT)
        return _WRAPPED + self.kid + nonce + wrapped

    def unwrap(self, data: bytes) -> bytes:
        """The run's key again."""
        key = _opened(self._cipher, data, _ABOUT)
        if key is None:
            raise Damaged(f"a key that is wrapped by the master key {self.name} does not open")
        return key


class RunCipher:
    """What seals the values of one run, each bound to its run and to the place where it lies."""

    __slots__ = ("_cipher", "_head", "_names")

    def __init__(self, master: Master, run_id: str) -> None:
        self._head = _SEALED + master.kid
        self._cipher: Any = aes_gcm(VARIABLE)(master.secret_of(run_id, b"perdure values"))
        self._names = master.secret_of(run_id, b"perdure blobs")

    def seal(self, place: bytes, data: bytes) -> bytes:
        """A value, sealed for its place."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, data, place)
        return self._head + nonce + sealed

    def open(self, place: bytes, data: bytes) -> bytes | None:
        """The value again; None if it was changed, or lay at another place."""
        return _opened(self._cipher, data, place)

    def name(self, digest: bytes) -> bytes:
        """The digest of a blob as others may see it: the same for the same blob of this run."""
        return blake2b(digest, digest_size=TAG_BYTES, key=self._names).digest()


@lru_cache(maxsize=4096)
def _of_run(master: Master, run_id: str) -> RunCipher:
    return RunCipher(master, run_id)


def kid_of(data: bytes) -> bytes:
    """The name of the master key that a value is sealed under; empty if it is not sealed."""
    return data[1 : 1 + KID_BYTES] if data[:1] == _SEALED and len(data) >= MORE_BYTES else b""


def _opened(cipher: Any, data: bytes, about: bytes) -> bytes | None:
    return opened(cipher, data[1 + KID_BYTES : _HEAD], data[_HEAD:], about)


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


def master_of(data: bytes) -> bytes:
    """The name of the master that a run's key, as the store keeps it, is wrapped by; empty if by none."""
    return data[1 : 1 + KID_BYTES] if data.startswith(_WRAPPED) and len(data) != KEY_BYTES else b""


def wrapped(key: bytes) -> bytes:
    """A new key as the store keeps it."""
    found = masters()
    return found[0].wrap(key) if found else key


def unwrapped(run_id: str, data: bytes | None) -> bytes | None:
    """A run's key, of what the store keeps: None if there is none, empty if it was destroyed.

    Raises KeyMissing, which names the master key that this process lacks.
    """
    if not data or not (kid := master_of(data)):
        return data
    for master in masters():
        if master.kid == kid:
            return master.unwrap(data)
    name = kid.hex()
    what = f"the key of run {run_id} is wrapped by the master key {name}, which {VARIABLE} does not have"
    raise KeyMissing(what, run_id=run_id, master=name)
