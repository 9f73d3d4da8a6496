"""What a step has recorded already is stored once."""

from __future__ import annotations

from perdure.codec import encode
from perdure.state.events import OddKey, Ref, Set, Splice
from tests.unit.runtime.driver import Desk, Driver


def test_a_recorded_value_is_stored_once() -> None:
    reply = {"role": "model", "text": "a reply that is long enough"}
    recorded = encode({"message": reply, "usage": 3})
    run = Driver(Desk, Desk(count=1))
    run.live.log.append(reply)
    start = recorded.index(encode(reply))
    ref = Ref(7, start, len(encode(reply)))
    assert run.commit({5: encode(1), 7: recorded}) == (Splice(("log",), 0, 0, (ref,)),)
    assert run.live.log == [reply]


def test_a_recorded_part_of_a_new_value_is_stored_once() -> None:
    result = "what the tool said, at some length " * 5
    recorded = encode(result)
    run = Driver(Desk, Desk(count=1))
    run.live.log.append({"role": "tool", 7: [result, "short"], "id": "c1"})
    run.live.notes["last"] = (result, {"again": result})
    ops = run.commit({3: recorded})
    ref = Ref(3, 0, len(recorded))
    assert ops == (
        Splice(("log",), 0, 0, (encode({"role": "tool", 7: [None, "short"], "id": "c1"}),)),
        Set(("log", 0, OddKey(encode(7)), 0), ref),
        Set(("notes",), encode({"last": (None, {"again": None})})),
        Set(("notes", "last", 0), ref),
        Set(("notes", "last", 1, "again"), ref),
    )


def test_short_values_stay_where_they_are() -> None:
    run = Driver(Desk, Desk())
    run.live.log.append("short")
    assert run.commit({3: encode("short") * 4}) == (Splice(("log",), 0, 0, (encode("short"),)),)


def test_of_equal_records_the_first_is_referred_to() -> None:
    recorded = encode("a text that two calls gave back")
    for values in ({9: recorded, 4: recorded}, {4: recorded, 9: recorded}):
        run = Driver(Desk, Desk())
        run.live.log.append("a text that two calls gave back")
        assert run.commit(values) == (Splice(("log",), 0, 0, (Ref(4, 0, len(recorded)),)),)


def test_a_text_that_grows_by_what_was_recorded_refers_to_it() -> None:
    reply = "what the model said, at some length " * 3
    recorded, before = encode(reply), "x" * 400
    run = Driver(Desk, Desk(notes={"text": before, "k": 0}))
    run.live.notes["text"] += reply
    assert run.commit({3: recorded}) == (
        Splice(("notes", "text"), len(before), 0, (Ref(3, 0, len(recorded)),)),
    )


def test_a_text_that_was_recorded_whole_is_referred_to() -> None:
    before = "x" * 400
    recorded = encode(before + ".")
    run = Driver(Desk, Desk(notes={"text": before, "k": 0}))
    run.live.notes["text"] += "."
    assert run.commit({3: recorded}) == (Set(("notes", "text"), Ref(3, 0, len(recorded))),)
