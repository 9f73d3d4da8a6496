"""The cipher: what is opened, what is not, and what is said where its package is missing."""

from __future__ import annotations

import os
import sys

import pytest

from perdure.cipher import KEY_BYTES, NONCE_BYTES, TAG_BYTES, aes_gcm, opened
from perdure.errors import ExtraMissing


def test_only_the_same_key_nonce_and_place_open_it() -> None:
    cipher, other = (aes_gcm("a test")(os.urandom(KEY_BYTES)) for _ in range(2))
    nonce = os.urandom(NONCE_BYTES)
    data = cipher.encrypt(nonce, b"value", b"here")
    assert len(data) == len(b"value") + TAG_BYTES
    assert opened(cipher, nonce, data, b"here") == b"value"
    assert opened(cipher, nonce, data, b"there") is None
    assert opened(other, nonce, data, b"here") is None
    assert opened(cipher, os.urandom(NONCE_BYTES), data, b"here") is None
    assert opened(cipher, nonce, bytes((data[0] ^ 1,)) + data[1:], b"here") is None
    assert opened(cipher, b"", data, b"here") is None


def test_without_its_package_it_says_who_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ExtraMissing, match="personal data needs a package") as refused:
        aes_gcm("personal data")
    assert refused.value.remedy == 'pip install "perdure[crypto]"'
