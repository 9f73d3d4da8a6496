"""Why a run does not move, for each way not to move."""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.state import events as e
from perdure.store.protocol import NEVER, Inbound
from perdure.timeline.reason import Why, why
from tests.unit.timeline.past import CRASHED, HELD, RECONCILED, START, STARTED, record
from tests.unit.timeline.test_condition import row

NOW = START + 60 * SECOND


def facts(answer: Why) -> dict[str, str]:
    return {fact.label: fact.text for fact in answer.facts}


def test_a_held_run_says_what_it_needs_and_how_to_give_it() -> None:
    answer = why(row(status="held", due_at=NEVER, updated_at=NOW - SECOND), record(HELD), NOW)
    assert answer.headline == "It needs a person: unknown-outcome."
    assert facts(answer)["held"] == "for 50 s: refund was called and its reply never came"
    assert facts(answer)["call"] == (
        "refund 2/1 [irreversible]: outcome unknown (crash), intent written 53 s ago, attempt 1"
    )
    assert answer.remedies == (
        "perdure resolve order-1042 2/1 --done RESULT",
        "perdure resolve order-1042 2/1 --not-done",
        "perdure cancel order-1042",
    )


def test_an_unknown_call_gets_its_commands_even_if_the_hold_names_none() -> None:
    bodies = (*CRASHED, e.RunHeld("unknown-outcome", "", (), "2/1"))
    answer = why(row(status="held"), record(bodies), NOW)
    assert [remedy.split("  ")[0] for remedy in answer.remedies] == [
        "perdure resolve order-1042 2/1 --done RESULT",
        "perdure resolve order-1042 2/1 --not-done",
        "perdure cancel order-1042",
    ]


def test_a_run_whose_worker_died_needs_a_worker() -> None:
    taken = row(lost="w-2", died=True, epoch=2, claims=3)
    answer = why(taken, record(CRASHED), NOW)
    assert answer.headline == "It needs a worker: worker w-2 died; no other has taken it over."
    assert facts(answer)["owner"] == "nobody; last worker w-2, which has died (epoch 2)"
    assert facts(answer)["claims"] == "3 without progress"
    assert answer.remedies[0] == "perdure run FILE:AGENT --id order-1042    carry it on here"


def test_a_silent_worker_is_told_from_a_live_one() -> None:
    silent = row(lost="w-2")
    owner = facts(why(silent, record(CRASHED), NOW))["owner"]
    assert owner == "nobody; last worker w-2, which let its lease run out (epoch 1)"
    live = row(status="running", worker="w-2", lease_until=NOW + 9 * SECOND)
    answer = why(live, record(CRASHED), NOW)
    assert answer.headline == "It is moving: a live worker holds it."
    assert facts(answer)["owner"] == "worker w-2, lease for 9.0 s more (epoch 1)"
    assert answer.remedies == ("perdure cancel order-1042",)


def test_a_waiting_run_is_all_right() -> None:
    folded = record((STARTED, e.WaitOpened("1/0", "sleep", NOW + 120 * SECOND)))
    answer = why(row(status="waiting", due_at=NOW + 120 * SECOND), folded, NOW)
    assert answer.headline.startswith("It waits until ")
    assert facts(answer)["wait"].endswith("2 min from now")
    forever = record((STARTED, e.WaitOpened("1/0", "signal", NEVER)))
    assert facts(why(row(status="waiting", due_at=NEVER), forever, NOW))["wait"] == "signal: for ever"


def test_the_inbox_and_a_cancel_that_is_under_way() -> None:
    folded = record((*CRASHED, e.CancelRequested("ada")))
    letters = tuple(Inbound(n, f"m{n}", "cancel", b"", NOW - n * SECOND) for n in range(1, 5))
    answer = why(row(pending=4), folded, NOW, inbox=letters)
    assert (
        facts(answer)["inbox"]
        == "4 not taken yet: cancel 1.0 s ago, cancel 2.0 s ago, cancel 3.0 s ago and 1 more"
    )
    assert facts(answer)["cancel"] == "asked for by ada; no new act is begun"
    assert "perdure cancel order-1042" not in answer.remedies
    assert facts(why(row(pending=1), folded, NOW))["inbox"] == "1 not taken yet"


def test_an_ended_run_offers_nothing() -> None:
    answer = why(row(status="succeeded", terminal=True), record(RECONCILED), NOW)
    assert answer.headline == "It has ended: ended with a result."
    assert answer.remedies == ()
    assert facts(answer)["past"] == "2 steps and 4 calls done, 150 tokens, resumed 2 times"


def test_what_the_outside_wrote_cannot_act_on_a_terminal() -> None:
    bodies = (*CRASHED, e.RunHeld("\x1b[31mred", "\x1b]0;title\x07", ("rm \x1b[1A",), "2/1"))
    answer = why(row(status="held", run_id="order-1042"), record(bodies), NOW)
    text = answer.headline + "".join(fact.text for fact in answer.facts) + "".join(answer.remedies)
    assert "\x1b" not in text
    assert "\x07" not in text
