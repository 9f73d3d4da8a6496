"""A call against recorded calls: the same, a changed one, a new one, one that is missing."""

from __future__ import annotations

from perdure.timeline.matching import Matcher, Pair, Recorded, paired


def call(path: str, name: str, digest: str, seq: int = 1) -> Recorded:
    """A recorded call that was done."""
    return Recorded(path, 1, name, "read", digest.encode(), {}, "done", seq)


def told(pairs: list[Pair]) -> list[tuple[str, str, int | None]]:
    """Each pair in short: what it is, the path of the recorded call, which of those made."""
    return [(pair.sameness, "" if pair.recorded is None else pair.recorded.path, pair.made) for pair in pairs]


def made(*calls: tuple[str, str, str]) -> list[tuple[str, bytes, str]]:
    """Calls that were made: path, name and digest of each."""
    return [(name, digest.encode(), path) for path, name, digest in calls]


def test_each_recorded_call_is_given_once_the_first_one_first() -> None:
    matcher = Matcher([call("1:0", "a", "x", 1), call("2:0", "a", "x", 2)])
    assert [matcher.take(b"x"), matcher.take(b"x"), matcher.take(b"x")] == [
        call("1:0", "a", "x", 1),
        call("2:0", "a", "x", 2),
        None,
    ]


def test_the_one_at_the_same_place_comes_first() -> None:
    matcher = Matcher([call("1:0", "a", "x", 1), call("2:0", "a", "x", 2)])
    found = matcher.take(b"x", "2:0")
    assert found is not None
    assert found.path == "2:0"
    assert [one.path for one in matcher.left()] == ["1:0"]


def test_a_read_is_given_more_often_than_it_was_made() -> None:
    matcher = Matcher([call("1:0", "a", "x", 1), call("2:0", "a", "x", 2)])
    paths = [found.path for _ in range(4) if (found := matcher.take(b"x", again=True)) is not None]
    assert paths == ["1:0", "2:0", "2:0", "2:0"]


def test_another_digest_is_another_call() -> None:
    assert Matcher([call("1:0", "a", "x")]).take(b"y", "1:0", again=True) is None


def test_what_is_the_same_changed_new_and_missing() -> None:
    recorded = [
        call("1:0", "look", "l1", 1),
        call("1:1", "pay", "p1", 2),
        call("2:0", "mail", "m1", 3),
        call("2:1", "look", "l2", 4),
    ]
    now = made(("1:0", "look", "l1"), ("1:1", "pay", "p2"), ("1:2", "audit", "a1"), ("2:0", "look", "l2"))
    assert told(paired(recorded, now)) == [
        ("same", "1:0", 0),
        ("changed", "1:1", 1),
        ("new", "", 2),
        ("missing", "2:0", None),
        ("same", "2:1", 3),
    ]


def test_what_is_missing_at_the_end_comes_last() -> None:
    recorded = [call("1:0", "a", "x", 1), call("1:1", "b", "y", 2)]
    assert told(paired(recorded, made(("1:0", "a", "x")))) == [("same", "1:0", 0), ("missing", "1:1", None)]


def test_calls_in_another_order_are_the_same_calls() -> None:
    recorded = [call("1:0", "a", "x", 1), call("1:1", "b", "y", 2)]
    now = made(("1:0", "b", "y"), ("1:1", "a", "x"))
    assert [pair.sameness for pair in paired(recorded, now)] == ["same", "same"]


def test_nothing_recorded_and_nothing_made() -> None:
    assert paired([], []) == []
    assert told(paired([], made(("1:0", "a", "x")))) == [("new", "", 0)]
