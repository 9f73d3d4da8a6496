"""AES-256-GCM, as everything here is sealed that must not be read: the cipher, and how it is opened.

It needs the extra `crypto`. Knows neither where keys come from nor what they seal.
"""

from __future__ import annotations

from typing import Any

from perdure.errors import ExtraMissing

KEY_BYTES = 32
"""Bytes of a key."""

NONCE_BYTES = 12
"""Bytes that no two values under one key may share."""

TAG_BYTES = 16
"""Bytes at the end of what is sealed, that no other value has."""


def aes_gcm(use: str) -> Any:
    """The cipher's class; `use` says what needs it. Raises ExtraMissing."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        what = f"{use} needs a package that is not installed: {error}"
        raise ExtraMissing(what, remedy='pip install "perdure[crypto]"') from error
    return AESGCM


def opened(cipher: Any, nonce: bytes, data: bytes, about: bytes) -> bytes | None:
    """What was sealed; None if it was changed, or sealed under another key or about something else."""
    try:
        plain: bytes = cipher.decrypt(nonce, data, about)
    except Exception as error:
        if type(error).__name__ not in ("InvalidTag", "ValueError"):
            raise
        return None
    return plain
