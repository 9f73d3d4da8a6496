"""Every error of perdure, and the signals that are not errors.

    PerdureError
      ConfigError            what was declared or configured cannot work       (C…)
      StoreError             the place where bytes are kept refused or failed  (S…)
      ResumeError            a run and today's code or caller disagree         (R…)
      CallError              one call could not be made, or its outcome        (T…)
      SchemaError            stored data and a declared type disagree          (M…)
      FaceError              a command or request was wrong                    (U…)

    Signal(BaseException)    suspension and lost leases: never caught by `except Exception`

Every error says what happened, what is safe now, and a remedy; `perdure explain CODE` prints the
class's docstring. Facts are attributes, and every error survives pickling.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar


class PerdureError(Exception):
    """An error of perdure: `what` happened, what is `safe` now, and a `remedy`."""

    code: ClassVar[str] = ""
    default_safe: ClassVar[str] = "Nothing was written and nothing was called."
    default_remedy: ClassVar[str] = ""

    def __init__(
        self,
        what: str,
        *,
        safe: str | None = None,
        remedy: str | None = None,
        where: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.safe = self.default_safe if safe is None else safe
        self.remedy = self.default_remedy if remedy is None else remedy
        self.where = where
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        """Facts read as attributes: `error.path`, `error.type_name`."""
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(name)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}" if self.code else self.what]
        if self.where:
            lines.append(f"  where   {self.where}")
        if self.safe:
            lines.append(f"  safe    {self.safe}")
        if self.remedy:
            lines.append(f"  remedy  {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {"safe": self.safe, "remedy": self.remedy, "where": self.where, "facts": self.facts}
        return (type(self), (self.what,), state)


# ---------------------------------------------------------------------------------------------- declarations (C)


class ConfigError(PerdureError):
    """What was declared or configured cannot work."""

    default_safe = "No run was started."


class BadSetting(ConfigError):
    """A setting or argument has a value that perdure does not know.

    The message names the setting, its value and the values that are allowed.
    """

    code = "C101"
    default_remedy = "use one of the values that the message lists"


class BadDeclaration(ConfigError):
    """An agent, tool, model, fact or hook was declared in a way that cannot work.

    Raised while your module is imported, before any run exists: two tools of one name, a reconcile hook whose
    parameters differ from its tool's, a step that is not `async def`, an effect class that does not exist.
    """

    code = "C102"
    default_remedy = "change the declaration that the message names"


class ExtraMissing(ConfigError):
    """A part of perdure needs a package that is not installed.

    The core stays small; PostgreSQL, the web page and the framework adapters are extras.
    """

    code = "C103"


class AppNotFound(ConfigError):
    """MODULE:AGENT or FILE:AGENT on the command line names nothing that is an agent."""

    code = "C104"
    default_remedy = "name a module or file and the variable that holds the Agent: perdure run agent.py:desk"


class LoopRunning(ConfigError):
    """`run_sync` was called where an event loop is running already; it would block every other task of that loop."""

    code = "C105"
    default_remedy = "await agent.run(...) there; run_sync is for code that has no event loop"


class NoRuntime(ConfigError):
    """An agent was to be run and the part of perdure that runs agents is not loaded."""

    code = "C106"
    default_remedy = "import perdure, not only perdure.agent"


# ---------------------------------------------------------------------------------------------- stores (S)


class StoreError(PerdureError):
    """The place where bytes are kept refused or failed."""

    default_safe = "What was acknowledged before is safe; nothing of this write is visible."


class StoreLocked(StoreError):
    """Another process holds the store's write lock for longer than the busy limit.

    perdure's own processes take turns, so this is nearly always a foreign tool with an open transaction.
    """

    code = "S101"
    default_remedy = "end the other program's transaction (perdure doctor names the holder), then try again"


class StoreUnavailable(StoreError):
    """The store cannot be opened or created: its folder is missing, or rights are missing.

    perdure never falls back to another store and never to memory.
    """

    code = "S102"


class DiskFull(StoreError):
    """The disk has no room for the write.

    New intents stop first, so that receipts can still be written from the reserve that perdure keeps.
    """

    code = "S103"
    default_remedy = "free space on the store's disk, then resume: the run continues where it was"


class StoreReadOnly(StoreError):
    """The store can be read but not written. Reading commands work; a resume stops before any step."""

    code = "S104"
    default_remedy = "give this user write permission on the file and its folder"


class StoreNewer(StoreError):
    """The store's tables were made by a newer perdure. An older one never opens it half."""

    code = "S105"
    default_remedy = "upgrade perdure on this machine: pip install -U perdure"


class NotAStore(StoreError):
    """The file exists and is not a perdure store. It was left as it is."""

    code = "S106"
    default_remedy = "choose another path; perdure writes only into files that it made"


class Damaged(StoreError):
    """Stored bytes do not match their digest, or do not decode.

    Damage is never served: the run is quarantined, the other runs go on.
    """

    code = "S107"
    default_safe = "Only this run is quarantined; nothing of it was served or overwritten."
    default_remedy = "perdure verify RUN shows the first damaged event; restore the file from a backup"


class NotDurable(StoreError):
    """The database would not promise to keep what it acknowledges (synchronous is not FULL after it was set)."""

    code = "S108"
    default_remedy = "use the SQLite that comes with apsw: pip install -U apsw"


class StaleEpoch(StoreError):
    """A write carried an old epoch: another worker owns the run by now. The write was refused whole."""

    code = "S109"
    default_remedy = "nothing to do: the newer owner carries the run on"


class SeqConflict(StoreError):
    """A write expected another last event than the store has. It was refused whole."""

    code = "S110"
    default_remedy = "nothing to do: the run is loaded again and carried on"


class InboxMoved(StoreError):
    """A message arrived between the look at the inbox and the write that rested on it. The write was refused."""

    code = "S111"
    default_remedy = "nothing to do: the guard runs again with the new message"


class NoSuchRun(StoreError):
    """The store holds no run of this id."""

    code = "S112"
    default_safe = "Nothing was changed."
    default_remedy = "perdure runs lists the runs of this store"


class RunGone(StoreError):
    """The run was pruned or erased. Its id stays taken, so that a late write can never revive it."""

    code = "S113"
    default_remedy = "choose a new run id"


class StoreIO(StoreError):
    """The disk reported an error while writing or syncing. The connection was dropped and state is read back."""

    code = "S114"
    default_remedy = "check the disk (dmesg, SMART), then resume: perdure verify tells what is whole"


class BadStoreURL(StoreError):
    """The store URL is not one that perdure knows."""

    code = "S115"
    default_remedy = "use a file path, sqlite:///path, memory: or postgresql://…"


class Expired(StoreError):
    """A write was allowed only until a moment that has passed by the store's clock. It was refused whole."""

    code = "S116"
    default_remedy = "nothing to do: the guard runs again"


class RunEnded(StoreError):
    """A message or an append for a run that has already ended. It was refused."""

    code = "S117"
    default_remedy = "start a new run, or fork this one"


class RunOpen(StoreError):
    """Only a run that has ended can be removed."""

    code = "S121"
    default_remedy = "perdure cancel RUN first"


class BadRunId(StoreError):
    """A run id must be 1 to 200 characters, printable, without NUL, lone surrogates or the characters @ and whitespace."""

    code = "S118"
    default_remedy = "use an id such as order-1042"


class StoreClosed(StoreError):
    """The store was closed while work was still being handed to it."""

    code = "S119"
    default_remedy = "keep the store open until its runs have been awaited"


class TooLarge(StoreError):
    """One value is larger than the store's limit for a single value."""

    code = "S120"
    default_remedy = "keep the large thing elsewhere (a file, an object store) and record its address"


class WorkerTaken(StoreError):
    """A worker incarnation of this name is alive. An incarnation's name must be its own."""

    code = "S122"
    default_safe = "Nothing was changed; the living worker keeps its runs."
    default_remedy = "let perdure choose the name, or stop the other worker"


class ForeignLoop(StoreError):
    """A store object was used from an event loop that is not its own.

    A store object belongs to the loop in which it was opened. Open another one for another loop or process.
    """

    code = "S123"
    default_safe = "Nothing was written."
    default_remedy = "open a store in each event loop: open_store(url)"


# ---------------------------------------------------------------------------------------------- resume (R)


class ResumeError(PerdureError):
    """A run and today's code, or a run and its caller, disagree."""

    default_safe = "The stored run is unchanged."


class Diverged(ResumeError):
    """The recorded calls of the open step do not match what today's code asks for.

    Nothing new was called. If only reads were recorded from the mismatch on, perdure drops that tail by itself and
    goes on; otherwise the run is held, and both sides are shown.
    """

    code = "R201"


class NotRepeatable(ResumeError):
    """A step did something else when it was replayed from its own record.

    A step must be deterministic between its calls. The usual causes are the wall clock, random numbers, the
    order of a set, and global variables.
    """

    code = "R202"
    default_safe = "The step was not committed; the run is held."
    default_remedy = "use run.now(), run.random(), run.new_id(), or put the outside read into a tool; then perdure retry RUN"


class SignalSwallowed(ResumeError):
    """The step caught perdure's suspension signal (`except BaseException`, or `return` in `finally`).

    A step that waits unwinds by a signal that must pass through. Its patch was not committed.
    """

    code = "R203"
    default_safe = "The step was not committed; the run is held."
    default_remedy = "catch Exception instead of BaseException, or re-raise; then perdure retry RUN"


class NotServed(ResumeError):
    """No agent of this name and version is served here."""

    code = "R204"
    default_remedy = "start a worker that has the agent: perdure worker MODULE:AGENT"


class OtherGoal(ResumeError):
    """A run of this id exists already, for another goal or another agent."""

    code = "R205"
    default_remedy = "use a new run id, or the goal that this run was started with"


class Poisoned(ResumeError):
    """The run killed or lost its worker several times without any progress."""

    code = "R206"
    default_remedy = "look at the last error with perdure show RUN, mend it, then perdure retry RUN"


class StepFailed(ResumeError):
    """An exception left the step. Its patch was discarded and the run is held."""

    code = "R207"
    default_remedy = (
        "mend the step and perdure retry RUN, or let the step call run.fail(error) if the run should fail"
    )


class RunHeld(ResumeError):
    """The run needs a person: `reason` and `remedies` say why and what they can do."""

    code = "R208"


class RunWaiting(ResumeError):
    """The run waits, so it has no result yet."""

    code = "R209"
    default_remedy = "perdure why RUN tells what it waits for"


class RunFailed(ResumeError):
    """The run ended as failed: the step called run.fail(error)."""

    code = "R210"


class RunCancelled(ResumeError):
    """The run was cancelled."""

    code = "R211"


class RunRetired(ResumeError):
    """The run was ended because no code can carry it on."""

    code = "R212"


class NothingToResolve(ResumeError):
    """There is nothing at this call that a person could settle, release or retry."""

    code = "R213"
    default_remedy = "perdure why RUN shows what is open"


# ---------------------------------------------------------------------------------------------- calls (T)


class CallError(PerdureError):
    """One call could not be made, or its outcome is not what was asked for."""


class OutcomeUnknown(CallError):
    """A call was made and its reply never came: it may have happened or not.

    perdure asks the tool's reconcile hook; without one a person answers.
    """

    code = "T201"
    default_safe = "The call is not repeated."
    default_remedy = (
        "perdure resolve RUN CALL --done RESULT | --not-done | --failed MESSAGE; or add @tool.reconcile"
    )


class ToolNotListed(CallError):
    """The running agent does not list this tool, so a step may not call it."""

    code = "T202"
    default_remedy = "add it to the agent: Agent(..., tools=[...]), or declare it with @agent.tool"


class UnknownTool(CallError):
    """The model asked for a tool that does not exist. In run.tools the model gets this as its answer."""

    code = "T203"


class BadArguments(CallError):
    """The arguments do not fit the tool's parameters. In run.tools the model gets this as its answer."""

    code = "T204"


class NotStorable(CallError):
    """A value cannot be stored: the message names its path and its type.

    What a step receives must come back the same after a crash, so perdure refuses what it could not bring back.
    """

    code = "T205"
    default_remedy = "return plain data, a dataclass, a msgspec Struct or a pydantic model; open sockets and clients with use(provider)"


class NoRun(CallError):
    """A tool that acts was called with no run in context while a step executes in this process.

    That is a thread or callback that lost its context: the act would not be recorded.
    """

    code = "T206"
    default_remedy = "call it through run.call or run.map, which carry the context into threads"


class ForeignTask(CallError):
    """A call came from an asyncio task that the run did not create, so its place in the run is not stable."""

    code = "T207"
    default_remedy = "use run.gather or run.map instead of asyncio.create_task, gather or wait_for"


class BlockingTool(CallError):
    """A plain `def` tool was called directly in a step and would block every other run of the process."""

    code = "T208"
    default_remedy = "await run.call(tool, ...) runs it in a thread; or declare it async def"


class StricterInside(CallError):
    """A tool's body called a declared function of a stricter effect class than its own.

    Inside a body everything runs under the outer call's receipt, so a payment inside a read would be repeated as a read.
    """

    code = "T209"
    default_remedy = "give the outer tool the stricter effect class, or call the inner tool from the step"


class CallFailed(CallError):
    """A call failed: its tool raised an exception that is not declared in `raises`.

    `type_name`, `message` and `trace` tell the original; it is recorded and comes back the same after a crash.
    """

    code = "T210"
    default_safe = "The failure is recorded; the step goes on."
    default_remedy = "declare the exception with raises=[...] to receive it as itself"


class LeftUnknown(CallError):
    """A call of a tool with unknown="raise" has no known outcome; the agent must look around before it goes on."""

    code = "T211"
    default_safe = "The call is not repeated; its verdict is recorded as left-unknown."


class CallOutsideStep(CallError):
    """A run's handle was used after its step had ended."""

    code = "T212"
    default_remedy = "use run only inside the step that received it"


class EffectRefused(CallError):
    """The call's effect class is not possible here, for example transactional on a store that has no transactions."""

    code = "T213"


class RemoteError(CallError):
    """The stand-in for an error whose class is not among the declared ones, or cannot be rebuilt here.

    `type_name`, `message` and `trace` tell the original. perdure never imports or calls a class that stored bytes name.
    """

    code = "T214"
    default_safe = "The failure is recorded; nothing is called again because of it."
    default_remedy = "declare the exception with raises=[...] to receive it as itself"


class ProviderFailed(CallError):
    """What a tool needs injected could not be opened, so the tool was not called.

    The provider's own error is its cause.
    """

    code = "T215"
    default_safe = "The tool was not called."
    default_remedy = "mend the provider, or replace it in tests: with override({provider: fake})"


class StatementRefused(CallError):
    """A transactional call's statement is not allowed in the store's transaction.

    Refused are perdure's own tables, and statements that end or leave the transaction: COMMIT, ROLLBACK, SAVEPOINT,
    PRAGMA, ATTACH. Also any use of `current_call().tx` after its call has ended.
    """

    code = "T216"
    default_safe = "The statement did nothing."
    default_remedy = (
        "use tables of your own, whose names do not begin with perdure_, and leave the commit to perdure"
    )


class StatementFailed(CallError):
    """A statement of a transactional call failed in the database: a constraint, a missing table, a syntax error."""

    code = "T217"
    default_safe = "The statement did nothing; if the error leaves the tool, the whole call is rolled back."


class TransactionTooLong(CallError):
    """A transactional call held the store's transaction beyond its limit and was rolled back."""

    code = "T218"
    default_safe = "Nothing of the call was kept."
    default_remedy = (
        "do slow work before the transaction; raise the tool's timeout only if all writers can wait so long"
    )


# ---------------------------------------------------------------------------------------------- schemas (M)


class SchemaError(PerdureError):
    """Stored data and a declared type or format disagree."""

    default_safe = "The stored run is unchanged."


class ShapeMismatch(SchemaError):
    """Data does not fit its declared type: the message names path, expected and found."""

    code = "M301"
    default_remedy = "raise state_version and declare @agent.migration(from_version), or mend the value"


class StateNewer(SchemaError):
    """The run's state was written by newer agent code than this."""

    code = "M303"
    default_remedy = "run it with the newer code"


class NewerFormat(SchemaError):
    """Stored bytes carry a newer format version than this perdure reads."""

    code = "M304"
    default_remedy = "upgrade perdure on this machine: pip install -U perdure"


class ZoneMissing(SchemaError):
    """A stored moment names a time zone that this machine has no data for. It is not read as another zone."""

    code = "M305"
    default_remedy = "install the zone data: pip install tzdata"


# ---------------------------------------------------------------------------------------------- faces (U)


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


# ---------------------------------------------------------------------------------------------- signals


class Signal(BaseException):
    """Not an error: the engine unwinds a step. Derives from BaseException so that user code does not swallow it."""


class Suspend(Signal):
    """The step cannot go on now (a wait, a hold, a cancel); it unwinds, and is executed again later."""


class LeaseLost(Signal):
    """Another worker owns the run by now; this process must stop acting on it at once."""


def catalogue() -> Iterator[type[PerdureError]]:
    """Every error class that has a code, in order of code."""

    def below(cls: type[PerdureError]) -> Iterator[type[PerdureError]]:
        for child in cls.__subclasses__():
            if child.code:
                yield child
            yield from below(child)

    yield from sorted(below(PerdureError), key=lambda cls: cls.code)
