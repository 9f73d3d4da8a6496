"""What is kept of personal data: bytes that only the key of its run opens.

A `Sealed` is plain data like any other: it is folded, compared, referred to, digested and exported as it is,
with no key at hand, and after the key is gone. A `Vault` has the key of one run. The same value is sealed to
the same bytes in one run, so that what is equal stays equal for patches and replay, and to others in every
other run: the nonce is a keyed digest of the value (RFC 5297 has the idea), so a digest of sealed bytes tells
nothing to whoever has no key. Knows no values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, final

from perdure.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, aes_gcm, opened
from perdure.errors import Damaged, KeyMissing, PersonalErased

_KID, _NONCE, _TAG = 8, NONCE_BYTES, TAG_BYTES
_ABOUT = b"perdure personal 1"


@final
class Sealed:
    """Encrypted value bytes: 8 bytes that name the key, a nonce of 12, ciphertext, a tag of 16."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        if len(data) < _KID + _NONCE + _TAG:
            raise ValueError("sealed data is cut off")
        self.data = data

    def __repr__(self) -> str:
        return "[personal]"  # in whatever words a value is told

    @property
    def exactly(self) -> bytes:
        """What tells it from every other one, where values are compared by their `repr`."""
        return self.data

    def __eq__(self, other: object) -> bool:
        return self.data == other.data if isinstance(other, Sealed) else NotImplemented

    def __hash__(self) -> int:
        return hash((Sealed, self.data))


class Seen:
    """Whether this process has come across a declaration or a value of personal data: without, no key is
    asked for.
    """

    personal = False


class Vault:
    """The key of one run. `erased`: it was destroyed, and nothing is opened any more."""

    __slots__ = ("_cipher", "_key", "_kid", "_nonces", "erased", "run_id")

    def __init__(self, run_id: str, key: bytes | None) -> None:
        self.run_id = run_id
        self.erased = key == b""
        self._key = key or None
        self._cipher: Any = None
        self._kid = self._nonces = b""

    @property
    def made(self) -> bool:
        """Whether there is, or was, a key: only then the run can have personal data."""
        return self.erased or self._key is not None

    def _ready(self) -> Any:
        if self._cipher is None:
            if self.erased:
                what = f"the personal data of run {self.run_id} was erased: its key is destroyed"
                raise PersonalErased(what, run_id=self.run_id)
            if self._key is None:
                what = f"the personal data of run {self.run_id} cannot be opened: the store has no key for it"
                raise KeyMissing(what, run_id=self.run_id)
            self._kid = blake2b(self._key, digest_size=_KID, person=b"perdure name").digest()
            self._nonces = blake2b(self._key, digest_size=KEY_BYTES, person=b"perdure nonce").digest()
            secret = blake2b(self._key, digest_size=KEY_BYTES, person=b"perdure seal").digest()
            self._cipher = aes_gcm("personal data")(secret)
        return self._cipher

    def seal(self, data: bytes) -> Sealed:
        """Value bytes, encrypted. Raises KeyMissing, PersonalErased, ExtraMissing."""
        cipher = self._ready()
        nonce = blake2b(data, digest_size=_NONCE, key=self._nonces).digest()
        return Sealed(self._kid + nonce + cipher.encrypt(nonce, data, _ABOUT))

    def unseal(self, sealed: Sealed) -> bytes:
        """Value bytes again. Raises KeyMissing for another run's, Damaged, PersonalErased, ExtraMissing."""
        cipher, data = self._ready(), sealed.data
        if not self.holds(sealed):
            what = f"personal data in run {self.run_id} was sealed under another key than the run's"
            raise KeyMissing(what, run_id=self.run_id)
        plain = opened(cipher, data[_KID : _KID + _NONCE], data[_KID + _NONCE :], _ABOUT)
        if plain is None:
            raise Damaged(f"sealed data of run {self.run_id} does not open", run_id=self.run_id)
        return plain

    def holds(self, sealed: Sealed) -> bool:
        """Whether it was sealed under this key."""
        self._ready()
        return compare_digest(sealed.data[:_KID], self._kid)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Within the block values are sealed and opened with this key."""
        token = vault_scope.set(self)
        try:
            yield
        finally:
            vault_scope.reset(token)


vault_scope: ContextVar[Vault | None] = ContextVar("perdure_vault", default=None)
"""The key of the run whose values are being read or written in this context."""


def vault_here() -> Vault:
    """The vault in context. Raises KeyMissing where there is none."""
    found = vault_scope.get()
    if found is None:
        raise KeyMissing("personal data is sealed and opened in its run alone, and no run is in context here")
    return found
