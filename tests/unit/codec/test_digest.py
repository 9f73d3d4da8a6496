"""Digests have defined byte strings, so any program can recompute them."""

from __future__ import annotations

from hashlib import blake2b

from perdure.codec import GENESIS, Rolling, chain, digest


def blake(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


def test_a_digest_tells_its_parts_apart() -> None:
    assert digest(b"ab", b"c") == blake(sized(b"ab") + sized(b"c"))
    assert len({digest(b"ab", b"c"), digest(b"a", b"bc"), digest(b"abc"), digest(b"abc", b""), digest()}) == 5


def test_a_link_is_the_digest_of_the_one_before_and_the_event() -> None:
    assert chain(GENESIS, b"event") == blake(b"\0" * 16 + b"event")
    assert chain(chain(GENESIS, b"a"), b"b") != chain(chain(GENESIS, b"b"), b"a")


def test_a_rolling_digest_is_that_of_the_whole_list() -> None:
    elements = [b"", b"a", b"bc", b"a"]
    whole = blake(b"".join(map(sized, elements)) + (4).to_bytes(8, "big"))
    rolling = Rolling()
    rolling.extend(elements[:2])
    fork = rolling.copy()
    before = rolling.digest()
    rolling.extend([])
    assert rolling.digest() == before == fork.digest()
    rolling.extend(iter(elements[2:]))
    assert (rolling.digest(), rolling.count) == (whole, 4)
    assert (fork.digest(), fork.count) == (before, 2)
    fork.extend([b"a", b"bc"])
    assert fork.digest() != whole
