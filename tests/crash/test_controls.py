"""The harness itself on trial: the engine is broken on purpose, and the same sweep must say so.

A mutant that nobody notices means that some promise is not tested. Each is tried on the scenarios that
could show it, point by point, until the first offence.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from perdure.testing.crash.pool import Tally, sweep_all

pytestmark = [pytest.mark.crash, pytest.mark.slow]

MUTANTS = {
    "intent_not_awaited": ("refunds", "call.act+call.acted"),
    "receipt_before_call": ("refunds", "receipt.queued"),
    "settled_calls_made_again": ("branches", "receipt.served+step.commit"),
    "key_changed_on_resend": ("branches", "call.acted+call.unknown"),
    "irreversible_retried": ("letters", "call.acted"),
    "acknowledged_before_commit": ("refunds", "intent.durable+call.act"),
    "unknown_not_recorded": ("branches", "call.act"),
    "hook_not_asked": ("refunds", "call.acted"),
    "messages_taken_apart": ("letters", "inbox.apply+run.resumed"),
    "end_apart_from_last_step": ("transfers", "run.finished"),
    "timer_begun_anew": ("naps", "run.suspended"),
    "signals_taken_twice": ("waits", "wait.closed+run.suspended"),
    "ids_forgotten": ("waits", "message.sent"),
    "transaction_in_two": ("transfers", "transact.committed"),
    "cancel_not_fenced": ("cancelled", "run.claimed"),
    "reservation_given_back": ("thrifty", "call.acted+receipt.queued"),
    "premises_not_asked": ("grounded", "call.acted"),
    "facts_fresh_for_ever": ("grounded", "run.suspended"),
    "undo_taken_for_done": ("undone", "call.act"),
    "open_step_not_undone": ("undone", "undo.done"),
    "fork_in_two": ("forked", "fork.created"),
    "origins_results_forgotten": ("forked", "effect.decided"),
    "rights_not_asked_again": ("permits", "authorize.answered"),
}
"""Each mutant, the scenario that it is tried on, and the boundaries where it must show."""


def item(mutant: str) -> str:
    """A sweep's item for a mutant."""
    scenario, only = MUTANTS[mutant]
    return f"tests.crash.scenarios:{scenario}!tests.crash.mutants:{mutant}@{only}"


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """All mutants, once for this file."""
    return sweep_all([item(mutant) for mutant in MUTANTS], tmp_path_factory.mktemp("mutants"), again=0.0)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_engine_is_noticed(tally: Tally, mutant: str) -> None:
    """Somewhere in the sweep there is an offence."""
    found = {command: said for command, said in tally.failures.items() if f"mutants:{mutant}@" in command}
    print("\n".join(f"{command}: {said[0]}" for command, said in found.items()))
    assert found, f"nobody noticed {mutant}"


def test_what_a_failure_prints_repeats_it(tally: Tally) -> None:
    """The printed command finds the same offence again, and nothing in an engine that is whole."""
    command = next(command for command in tally.failures if "mutants:irreversible_retried@" in command)
    _, _, _, what, broken, _, at = command.split(" ")
    for target, code, word in (
        (broken.strip("'"), 1, "OFFENCE"),
        (broken.strip("'").partition("!")[0], 0, "nothing offends"),
    ):
        run = [sys.executable, "-m", "perdure.testing.crash", what, target, "--at", at.strip("'")]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert word in done.stdout
