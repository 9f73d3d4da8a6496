"""A command or request was wrong (U…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


class FaceError(PerdureError):
    """A command or request was wrong."""

    default_safe = "Nothing was changed."


class AmbiguousRun(FaceError):
    """A run id prefix fits several runs."""

    code = "U702"
    default_remedy = "give more characters of the id"


class BadPoint(FaceError):
    """A point in a run is written RUN@SEQ and must exist."""

    code = "U703"
    default_remedy = "perdure show RUN lists the events; a point is written such as order-1042@41"


class BadPlace(FaceError):
    """A place in a run's state is written like `messages[3].content` and must exist at that point."""

    code = "U710"
    default_remedy = "perdure state RUN shows the whole state, and with it the name of each place"


class BadChange(FaceError):
    """What a fork shall change cannot be changed at this point, or is nothing that can be changed.

    State and goal are changed where the open step has recorded nothing yet, a result while nothing that came
    after it is recorded: a call that is served would otherwise rest on what is not so any more.
    """

    code = "U720"
    default_safe = "Nothing was written."
    default_remedy = "perdure show RUN lists the points; fork at an earlier one"


class NotABundle(FaceError):
    """The file is no exported run."""

    code = "U711"
    default_remedy = "perdure export RUN writes one; a store is named with --store, and needs no import"


class ImportConflict(FaceError):
    """The store has a run of this id with another past, or lacks a child that the run waits for.

    Nothing of either was changed.
    """

    code = "U712"
    default_remedy = "import it into another store: perdure import FILE --store other.db"


class PruneRefused(FaceError):
    """`perdure prune` and `compact` delete for good, and were not told to: nobody could be asked."""

    code = "U713"
    default_remedy = "look first with --dry-run, then repeat the command with --yes"


class RestoreRefused(FaceError):
    """`perdure restore` takes every open run from whoever has it, and was not told to: nobody could be asked.

    It is for a store that was brought back from a backup, never for one that is at work.
    """

    code = "U714"
    default_remedy = "see that the store is the one that was brought back, then repeat the command with --yes"


class UnknownCode(FaceError):
    """`perdure explain` knows no error of this code."""

    code = "U704"
    default_remedy = "perdure explain without a code lists them all"


class NoStore(FaceError):
    """There is no store where this command looked for one. A command that only looks never makes a store.

    The message says which path was looked for: `--store`, else PERDURE_STORE, else `./perdure.db`.
    """

    code = "U705"
    default_remedy = "name the store with --store PATH or PERDURE_STORE; perdure run makes a new one"


class FileThere(FaceError):
    """`perdure init` would have written over a file. It was left as it is."""

    code = "U706"
    default_remedy = "choose another name: perdure init other.py"


class CannotWrite(FaceError):
    """A command (`init`, `demo`, `lab`) cannot write where it was told to: the message names the place."""

    code = "U709"
    default_remedy = "go to a folder that you may write to, or name one"


class BadGoal(FaceError):
    """The goal on the command line is missing, or does not fit the agent's goal type."""

    code = "U707"
    default_safe = "No run was started."
    default_remedy = "give the goal as text, or as JSON for an agent with a goal type: perdure run FILE GOAL"


class DemoFailed(FaceError):
    """A part of `perdure demo` did not start or did not answer in time. Your own stores were not touched."""

    code = "U708"
    default_safe = "Only the demo's own folder was written to."
    default_remedy = (
        "perdure demo --dir FOLDER keeps the logs of every part; perdure doctor checks the machine"
    )
