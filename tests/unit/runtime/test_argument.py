"""Lists of the state as arguments of calls: written as references, digested as what is new."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from perdure.codec import encode, plain
from perdure.errors import NotStorable
from perdure.runtime import tree
from perdure.runtime.tree import argument_digest, encode_items, list_digest
from perdure.state.events import Ref, StateList
from tests.unit.runtime.driver import Desk, Driver, Said


@pytest.fixture(autouse=True, params=[1, 4], ids=["short lists watched", "short lists compared"])
def watch_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trap is set for both ways to look at a list."""
    monkeypatch.setattr(tree, "WATCH_FROM", request.param)


def test_a_list_of_the_state_is_written_as_a_reference() -> None:
    run = Driver(Desk, Desk(said=[Said("user", str(n)) for n in range(9)]))
    said = run.live.said
    whole = argument_digest(said)
    assert whole == list_digest(encode_items(said)) == argument_digest(plain(said))
    assert run.state.argument(said, {}) == (StateList(("said",), 9), whole)
    reply = Said("model", "a longer reply")
    said.append(reply)
    recorded = encode({"message": reply})
    reference, found = run.state.argument(said, {4: recorded}) or pytest.fail("not found")
    data = encode(reply)
    assert reference == StateList(("said",), 9, (Ref(4, recorded.index(data), len(data)),))
    assert found == argument_digest(said) != whole


def test_only_lists_of_the_state_are_referred_to() -> None:
    run = Driver(Desk, Desk(said=[Said("user", "a")] * 5))
    for other in (list(run.live.said), tuple(run.live.said), "said", run.live, run.live.said[0]):
        assert run.state.argument(other, {}) is None
    run.live.one = [1, 2]
    assert run.state.argument(run.live.one, {}) is None  # nothing is committed there
    run.commit()
    run.live.one.append(3)
    known = run.state.argument(run.live.one, {})
    assert known == (StateList(("one",), 2, (encode(3),)), argument_digest([1, 2, 3]))


def test_a_changed_beginning_is_not_referred_to() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(300)]))
    log = run.live.log
    assert run.state.argument(log, {}) == (StateList(("log",), 300), argument_digest(log))
    for at in (299, 270, 128, 3, 0):
        log[at]["n"] = True
        reference, found = run.state.argument(log, {}) or pytest.fail("not found")
        assert (reference.count, len(reference.extra)) == (at, 300 - at)
        assert found == argument_digest(log)
    run.commit()
    assert run.state.argument(run.live.log, {}) == (StateList(("log",), 300), argument_digest(run.live.log))
    del run.live.log[290:]
    assert run.state.argument(run.live.log, {}) == (StateList(("log",), 290), argument_digest(run.live.log))
    run.live.log = copy.deepcopy(run.live.log)
    assert run.state.argument(run.live.log, {}) == (StateList(("log",), 290), argument_digest(run.live.log))


def test_an_argument_that_cannot_be_stored_is_named_by_its_path() -> None:
    run = Driver(Desk, Desk(log=[1, 2]))
    run.live.log.append({"k": object()})
    with pytest.raises(NotStorable) as caught:
        run.state.argument(run.live.log, {})
    assert caught.value.path == "$.state.log[2].k"
    with pytest.raises(NotStorable) as caught:
        argument_digest([1, {"k": object()}], where="$.messages")
    assert caught.value.path == "$.messages[1].k"


def test_digests_tell_values_apart() -> None:
    values: list[Any] = [
        [],
        [1],
        [True],
        [1.0],
        [[1]],
        [1, 1],
        (1,),
        1,
        None,
        "",
        {"a": 1},
        ["a", "b"],
        ["ab"],
    ]
    assert len({argument_digest(value) for value in values}) == len(values)
