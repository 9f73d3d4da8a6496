"""The live state, trap by trap: aliases, equal values of other types, hidden changes, lists, refusals."""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from perdure.codec import decode, encode, plain
from perdure.errors import NotStorable, ShapeMismatch
from perdure.runtime import block, tree
from perdure.runtime.tree import LiveState
from perdure.state.events import Op, Set, Splice
from perdure.state.patch import apply, same
from tests.unit.runtime.driver import Box, Desk, Driver, Mood, Said, Turn


@pytest.fixture(autouse=True, params=[1, 4], ids=["short lists watched", "short lists compared"])
def watch_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every trap is set for both ways to look at a list."""
    monkeypatch.setattr(tree, "WATCH_FROM", request.param)


# ---------------------------------------------------------------------------------------- patches


def test_an_append_is_a_splice_of_what_is_new() -> None:
    run = Driver(Desk, Desk(said=[Said("user", "a")] * 5))
    run.live.said.append(Said("user", "b"))
    assert run.commit() == (Splice(("said",), 5, 0, (encode(Said("user", "b")),)),)


def test_nothing_changed_is_no_operation() -> None:
    run = Driver(Desk, Desk(said=[Said("user", "a")], log=[{"a": [1]}], notes={"k": {"n": 1}}))
    assert run.commit() == ()


@pytest.mark.parametrize("length", [1, 10, 1000])
def test_a_patch_does_not_grow_with_the_list(length: int) -> None:
    run = Driver(Desk, Desk(log=[{"n": n, "text": "x" * 50, "deep": [{"k": 0}]} for n in range(length)]))
    run.live.log.append({"n": -1})
    run.live.log[length // 2]["deep"][0]["k"] = 1
    ops = run.commit()
    assert sum(len(msgspec.msgpack.encode(op)) for op in ops) < 60


# ---------------------------------------------------------------------------------------- aliases


def test_one_object_appended_twice_is_two() -> None:
    run = Driver(Desk, Desk())
    entry = {"n": 1, "deep": [1]}
    run.live.log += [entry, entry]
    run.commit()
    run.live.log[0]["n"] = 2
    run.live.log[1]["deep"].append(2)
    entry["n"] = 99
    run.commit()
    assert run.live.log == [{"n": 2, "deep": [1]}, {"n": 1, "deep": [1, 2]}]


def test_one_list_at_two_places_is_two() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(6)]))
    run.live.notes["log"] = run.live.log
    run.live.by["log"] = run.live.log
    run.commit()
    run.live.log.append(1)
    run.live.log[0]["n"] = 9
    run.commit()
    assert run.live.notes["log"] == run.live.by["log"] == [{"n": n} for n in range(6)]


def test_an_alias_that_equals_what_was_there_does_not_survive() -> None:
    run = Driver(Desk, Desk(log=[{"n": 1, "in": {"k": 1}} for _ in range(6)], one={"n": 1, "in": {"k": 1}}))
    run.live.one = run.live.log[0]
    run.live.log[2] = run.live.log[1]
    run.live.log[4]["in"] = run.live.log[3]["in"]
    assert run.commit() == ()
    run.live.one["n"] = 2
    run.live.log[1]["n"] = 3
    run.live.log[3]["in"]["k"] = 4
    run.commit()
    assert [entry["n"] for entry in run.live.log] == [1, 3, 1, 1, 1, 1]
    assert [entry["in"]["k"] for entry in run.live.log] == [1, 1, 1, 4, 1, 1]


def test_an_object_of_the_last_step_is_no_longer_the_state() -> None:
    run = Driver(Desk, Desk(turns=[Turn("user") for _ in range(5)]))
    new = Turn("model")
    run.live.turns.append(new)
    kept = run.live.turns
    run.commit()
    new.role = "other"
    kept.append(Turn("x"))
    assert run.live.turns[5] == Turn("model")
    assert len(run.live.turns) == 6


def test_a_moved_element_is_still_watched() -> None:
    twin: dict[str, Any] = {"n": 1}
    run = Driver(list[Any], [])
    run.plain = [twin] * 300  # stored data may share what it repeats
    run.state = LiveState(run.shape, run.plain)
    run.live[0], run.live[299] = run.live[299], run.live[0]
    assert run.commit() == ()
    run.live[0]["n"] = 2
    run.commit()
    run.live[299]["n"] = 3
    run.commit()
    assert (run.live[0], run.live[299]) == ({"n": 2}, {"n": 3})


# ---------------------------------------------------------------------------------------- what `==` hides


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        ((1,), [1]),
        ([1], (1,)),
        ("calm", Mood.CALM),
        (b"x", bytearray(b"x")),
        ({1}, {True}),
    ],
)
def test_an_equal_value_of_another_type_is_seen(old: Any, new: Any) -> None:
    for deep in (lambda value: value, lambda value: {"k": 0, "v": value}, lambda value: [0, (1, [value])]):
        run = Driver(Desk, Desk(log=[deep(old) for _ in range(6)], notes={"v": deep(old)}, one=deep(old)))
        run.live.log[3] = deep(new)
        run.live.notes["v"] = deep(new)
        run.live.one = deep(new)
        ops = run.commit()
        assert bool(ops) == (not same(plain(old), plain(new)))
        assert repr(run.live.log[3]) == repr(plain(deep(new)))
        assert repr(run.live.one) == repr(plain(deep(new)))


def test_keys_that_change_places_are_seen() -> None:
    run = Driver(Desk, Desk(log=[{"a": None, "b": None, "c": 1} for _ in range(200)]))
    entry = run.live.log[150]
    entry["a"] = entry.pop("a")
    assert len(run.commit()) == 2
    assert list(run.live.log[150]) == ["b", "c", "a"]
    entry = run.live.log[100]
    entry.clear()
    entry.update(b=None, a=None, c=1)  # the same values in the same order
    assert len(run.commit()) > 0
    assert list(run.live.log[100]) == ["b", "a", "c"]
    run.live.log[9]["x"] = run.live.log[9].pop("c")  # another name, the same value, the same place
    assert len(run.commit()) == 2
    assert list(run.live.log[9]) == ["a", "b", "x"]


@pytest.mark.parametrize("key", [1, None, (1, 2), b"k"])
def test_dicts_with_other_keys_are_seen(key: Any) -> None:
    run = Driver(list[Any], [{key: n, "n": n} for n in range(9)])
    for at in (3, 8, 0):
        run.live[at][key] = "changed"
        assert len(run.commit()) == 1
    run.live[5]["n"] = 0
    assert run.commit() == (Set((5, "n"), encode(0)),)


def test_what_moves_between_neighbours_is_seen() -> None:
    run = Driver(list[Any], [["a", "b"], ["c"], {"k": "d"}, {}, ["e"], []])
    run.live[1].insert(0, run.live[0].pop())
    run.live[3]["k"] = run.live[2].pop("k")
    run.live[5].append(run.live[4].pop())
    run.commit()
    assert run.live == [["a"], ["b", "c"], {}, {"k": "d"}, [], ["e"]]


def test_a_change_in_place_after_an_append_is_seen() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(5)]))
    run.live.log.append({"n": 5})
    run.live.log[-1]["n"] = 6
    run.live.log[1]["n"] = 7
    run.commit()
    run.live.log[-1]["deep"] = {"k": [1]}
    run.commit()
    run.live.log[-1]["deep"]["k"].append(2)
    assert run.commit() == (Splice(("log", 5, "deep", "k"), 1, 0, (encode(2),)),)


def test_a_frozen_element_may_hold_what_is_not() -> None:
    run = Driver(Desk, Desk(boxes=[Box([1]) for _ in range(5)]))
    run.live.boxes[2].items.append(2)
    assert run.commit() == (Splice(("boxes", 2, "items"), 1, 0, (encode(2),)),)


def test_attributes_that_are_no_fields_are_no_state() -> None:
    run = Driver(Desk, Desk(turns=[Turn("user") for _ in range(5)]))
    run.live.turns[2].seen = True
    assert run.commit() == ()
    assert not hasattr(run.live.turns[2], "seen")


# ---------------------------------------------------------------------------------------- lists


def test_lists_shrink_turn_and_are_replaced() -> None:
    run = Driver(Desk, Desk(said=[Said("user", str(n)) for n in range(9)], log=[{"n": n} for n in range(9)]))
    del run.live.said[2:4]
    run.live.log.pop()
    run.commit()
    run.live.said.reverse()
    run.live.log.sort(key=lambda entry: -entry["n"])
    run.commit()
    run.live.said = list(run.live.said)
    run.live.log = copy.deepcopy(run.live.log)
    assert run.commit() == ()
    run.live.said = [*run.live.said, Said("model", "x")]
    assert run.commit() == (Splice(("said",), 7, 0, (encode(Said("model", "x")),)),)
    run.live.said.clear()
    run.live.log = []
    run.commit()


def test_a_sliding_window_costs_what_moved() -> None:
    run = Driver(Desk, Desk(log=[{"n": n, "text": "x" * 40} for n in range(300)]))
    for n in range(300, 305):
        run.live.log = [*run.live.log[1:], {"n": n}]
        ops = run.commit()
        assert ops == (Splice(("log",), 300, 0, (encode({"n": n}),)), Splice(("log",), 0, 1, ()))
    run.live.log[77]["n"] = 0
    assert run.commit() == (Set(("log", 77, "n"), encode(0)),)


def test_lists_anywhere_below_records_and_dicts() -> None:
    run = Driver(Desk, Desk())
    ops: tuple[Op, ...] = ()
    for turn in range(3):
        run.live.by.setdefault("ann", []).extend([turn] * 5)
        run.live.notes.setdefault("deep", {}).setdefault("list", []).extend([{"n": turn}] * 5)
        ops = run.commit()
    assert [type(op) for op in ops] == [Splice, Splice]
    del run.live.by["ann"]
    run.live.notes["deep"] = run.live.notes["deep"]["list"]
    run.commit()
    run.live.notes["deep"].append(1)
    assert run.commit() == (Splice(("notes", "deep"), 15, 0, (encode(1),)),)


def test_the_state_assigned_whole() -> None:
    run = Driver(Desk, Desk(said=[Said("user", "a")] * 5))
    run.state.live = replace(run.live, count=1, said=[*run.live.said, Said("user", "b")])
    assert len(run.commit()) == 2
    run.state.live = Desk()
    run.commit()


def test_reset_forgets_the_step() -> None:
    log = [{"n": n, "k": 0} for n in range(9)]
    run = Driver(Desk, Desk(log=log, turns=[Turn("user")] * 5, notes={"k": [1]}))
    run.live.log[3]["n"] = 99
    del run.live.log[5:]
    run.live.turns[0].parts.append(1)
    run.live.notes["k"].append(2)
    run.live.one = run.live.log
    run.state.patch({})
    run.state.reset()
    assert run.live == run.shape.restore(run.plain)
    assert run.commit() == ()
    run.live.log[3]["n"] = 4
    assert run.commit() == (Set(("log", 3, "n"), encode(4)),)


def test_a_commit_of_something_else_is_loaded_anew() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(5)]))
    run.live.log.append(1)
    run.state.patch({})
    other = plain(Desk(log=["other"] * 7))
    run.state.commit(other, ())
    assert run.live == Desk(log=["other"] * 7)
    run.live.log.append(2)
    ops = run.state.patch({})
    run.state.commit(plain(Desk(log=[1])), ops)  # a state that these operations do not give
    assert run.live == Desk(log=[1])


def test_another_thread_appends_meanwhile() -> None:
    """Field case O-034."""
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(50)]))
    stop = threading.Event()

    def append() -> None:
        while not stop.is_set() and len(run.live.log) < 20_000:
            run.live.log.append({"n": -1})
            run.live.notes[str(len(run.live.notes) % 50)] = 1

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(20):
            ops = run.state.patch({})
            run.plain = apply(run.plain, ops, {}, decode)
            run.state.commit(run.plain, ops)
    finally:
        stop.set()
        thread.join()
    run.commit()


# ---------------------------------------------------------------------------------------- refusals


def test_what_cannot_be_stored_is_named_by_its_path() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(5)]))
    run.live.log[3]["content"] = threading.Lock()
    with pytest.raises(NotStorable, match=r"\$\.state\.log\[3\]\.content") as caught:
        run.state.patch({})
    assert caught.value.path == "$.state.log[3].content"
    run.state.reset()
    run.live.notes["a b"] = [object()]
    with pytest.raises(NotStorable) as caught:
        run.state.patch({})
    assert caught.value.path == "$.state.notes['a b'][0]"
    run.state.reset()
    assert run.commit() == ()


def test_a_state_that_contains_itself_is_refused() -> None:
    run = Driver(Desk, Desk(log=[{"n": n} for n in range(5)]))
    for make in (
        lambda live: live.log.append(live.log),
        lambda live: live.log[0].update(me=live.log),
        lambda live: live.notes.update(me=live.notes),
    ):
        make(run.live)  # type: ignore[no-untyped-call]
        with pytest.raises(NotStorable, match="refers back to"):
            run.state.patch({})
        run.state.reset()
        assert run.commit() == ()


def test_depth_is_judged_from_the_root() -> None:
    def nested(levels: int) -> Any:
        value: Any = 0
        for _ in range(levels):
            value = [value]
        return value

    deepest = next(levels for levels in range(200) if _refused({"notes": {"k": nested(levels)}}))
    for levels, fits in ((deepest - 1, True), (deepest, False)):
        for in_list in (True, False):
            run = Driver(Desk, Desk(by={"k": [0] * 5}))
            if in_list:
                run.live.by["k"].append(nested(levels - 1))
            else:
                run.live.notes["k"] = nested(levels)
            if fits:
                run.commit()
            else:
                with pytest.raises(NotStorable, match="deeper"):
                    run.state.patch({})


def _refused(value: Any) -> bool:
    try:
        plain(value)
    except NotStorable:
        return True
    return False


def test_what_the_type_would_not_take_back_is_refused_before_it_is_committed() -> None:
    run = Driver(Desk, Desk(said=[Said("user", "a")] * 5))
    run.live.said.append("no message")
    with pytest.raises(ShapeMismatch) as caught:
        run.state.patch({})
    assert caught.value.path == "$.state.said[5]"
    run.state.reset()
    run.live.count = "many"
    with pytest.raises(ShapeMismatch, match=r"\$\.state\.count"):
        run.state.patch({})
    run.state.reset()
    assert run.commit() == ()


# ---------------------------------------------------------------------------------------- the interpreter


@pytest.mark.parametrize("look", [block._referents, block._children], ids=["collector", "loops"])
def test_both_ways_to_look_below_see_the_same(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "look_below", look)
    run = Driver(list[Any], [{"a": [n, "x"], "b": {"c": n, "d": None, "e": None}} for n in range(300)])
    for change in (
        lambda live: live[5]["a"].append(1),
        lambda live: live[6]["b"].update(c=True),
        lambda live: live[7]["b"].update(d=live[7]["b"].pop("d")),
        lambda live: live[8].update({9: 1}),
        lambda live: live[9]["a"].reverse(),
    ):
        assert run.commit() == ()
        change(run.live)  # type: ignore[no-untyped-call]
        assert len(run.commit()) > 0


@pytest.mark.parametrize("look", [block._referents, block._children], ids=["collector", "loops"])
def test_both_ways_see_a_key_of_another_type(look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "look_below", look)
    run = Driver(list[Any], [{1: n} for n in range(9)])
    run.live[3][True] = run.live[3].pop(1)
    assert len(run.commit()) > 0
    assert list(run.live[3]) == [True]
    assert type(next(iter(run.live[3]))) is bool


def test_the_collector_is_trusted_here() -> None:
    assert block.look_below is block._referents
