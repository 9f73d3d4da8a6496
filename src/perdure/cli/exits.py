"""What the exit code of a command says. docs/cli.md has the same table, and a test compares them."""

from __future__ import annotations

from perdure import errors

# What each says is in MEANING.
OK = 0  # done
FAILURE = 1  # tried, and it did not succeed
USAGE = 2  # click's own code for a wrong command line
NOT_FOUND = 3  # or ambiguous
NEEDS_PERSON = 4  # held
REFUSED = 5  # by a safety rule
UNFINISHED = 6  # not ended, and nothing is wrong
INTERRUPTED = 130  # what shells give to a program that Ctrl-C ended

MEANING: dict[int, str] = {
    OK: "done: the run succeeded, or there was nothing wrong",
    FAILURE: "it did not succeed: the run failed or was cancelled, damage was found, the store failed",
    USAGE: "the command line is not right",
    NOT_FOUND: "no such run, store, agent or error code; or the name fits several",
    NEEDS_PERSON: "the run waits for a person: it is held, or asks for a permission",
    REFUSED: "refused by a safety rule; nothing was changed",
    UNFINISHED: "the run is not finished: it waits for a moment or a message",
    INTERRUPTED: "stopped by Ctrl-C; the run can be carried on",
}
"""The table of docs/cli.md."""

_CODES: tuple[tuple[int, tuple[type[errors.PerdureError], ...]], ...] = (
    (
        NOT_FOUND,
        (
            errors.NoSuchRun,
            errors.RunGone,
            errors.AmbiguousRun,
            errors.NoStore,
            errors.BadPoint,
            errors.EventsPruned,
            errors.BadPlace,
            errors.UnknownCode,
            errors.NoSuchApproval,
            errors.AppNotFound,
        ),
    ),
    (USAGE, (errors.BadSetting, errors.BadRunId, errors.BadStoreURL, errors.BadGoal)),
    (NEEDS_PERSON, (errors.RunHeld,)),
    (UNFINISHED, (errors.RunWaiting,)),
    (FAILURE, (errors.RunFailed, errors.RunCancelled, errors.RunRetired)),
    (
        REFUSED,
        (
            errors.ResumeError,
            errors.BudgetError,
            errors.ApprovalError,
            errors.SchemaError,
            errors.WaitError,
            errors.EffectRefused,
            errors.RunEnded,
            errors.RunOpen,
            errors.NotAStore,
            errors.StoreNewer,
            errors.StoreReadOnly,
            errors.ImportConflict,
            errors.PruneRefused,
            errors.EraseRefused,
            errors.BadChange,
            errors.RestoreRefused,
            errors.NotDurable,
            errors.FileThere,
        ),
    ),
)
"""The first row with a matching class decides; everything else is a FAILURE."""


def code_of(error: errors.PerdureError) -> int:
    """The exit code of a command that ended with this error."""
    for code, kinds in _CODES:
        if isinstance(error, kinds):
            return code
    return FAILURE


OUTCOMES: dict[str, int] = {
    "succeeded": OK,
    "failed": FAILURE,
    "cancelled": FAILURE,
    "retired": FAILURE,
    "held": NEEDS_PERSON,
    "waiting": UNFINISHED,
}
"""The exit code of `perdure run`, by the status in which the run is handed back."""
