"""One call could not be made, or its outcome is not what was asked for (T…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


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
    default_remedy = "offer the model only tools that the agent lists; it reads this and may choose another"


class BadArguments(CallError):
    """The arguments do not fit the tool's parameters. In run.tools the model gets this as its answer."""

    code = "T204"
    default_remedy = "give arguments that fit what the message names; a model reads this and may try again"


class NotStorable(CallError):
    """A value cannot be stored: the message names its path and its type.

    What a step receives must come back the same after a crash, so perdure refuses what it could not bring
    back.
    """

    code = "T205"
    default_safe = (
        "The value was not written. If a tool that acts has returned it, the act has happened and is not "
        "repeated; otherwise nothing was called."
    )
    default_remedy = (
        "return plain data, a dataclass, a msgspec Struct or a pydantic model; open sockets and "
        "clients with use(provider)"
    )


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

    Inside a body everything runs under the outer call's receipt, so a payment inside a read would be
    repeated as a read.
    """

    code = "T209"
    default_remedy = "give the outer tool the stricter effect class, or call the inner tool from the step"


class CallFailed(CallError):
    """A call failed: its tool raised an exception that is not declared in `raises`.

    `type_name`, `message` and `trace` tell the original; it is recorded and comes back the same after a
    crash.
    """

    code = "T210"
    default_safe = "The failure is recorded; the step goes on."
    default_remedy = "declare the exception with raises=[...] to receive it as itself"


class LeftUnknown(CallError):
    """A call of a tool with unknown="raise" has no known outcome.

    The agent must look around before it goes on.
    """

    code = "T211"
    default_safe = "The call is not repeated; its verdict is recorded as left-unknown."
    default_remedy = "catch it, look whether the act happened, and only then decide to act again"


class CallOutsideStep(CallError):
    """A run's handle was used after its step had ended."""

    code = "T212"
    default_remedy = "use run only inside the step that received it"


class EffectRefused(CallError):
    """The call's effect class is not possible here, such as transactional on a store without transactions."""

    code = "T213"
    default_remedy = "use a store that can keep the class, or declare another effect class"


class RemoteError(CallError):
    """The stand-in for an error whose class is not among the declared ones, or cannot be rebuilt here.

    `type_name`, `message` and `trace` tell the original. perdure never imports or calls a class that stored
    bytes name.
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

    Refused are perdure's own tables, and statements that end or leave the transaction: COMMIT, ROLLBACK,
    SAVEPOINT, PRAGMA, ATTACH. Also any use of `current_call().tx` after its call has ended.
    """

    code = "T216"
    default_safe = "The statement did nothing."
    default_remedy = (
        "use tables of your own, whose names do not begin with perdure_, and leave the commit to perdure"
    )


class StatementFailed(CallError):
    """A statement of a transactional call failed in the database.

    A constraint, a missing table, a syntax error: the message is the database's own.
    """

    code = "T217"
    default_safe = "The statement did nothing; if the error leaves the tool, the whole call is rolled back."
    default_remedy = "mend the statement or its values; catch this in the tool to go on without it"


class TransactionTooLong(CallError):
    """A transactional call held the store's transaction beyond its limit and was rolled back."""

    code = "T218"
    default_safe = "Nothing of the call was kept."
    default_remedy = (
        "do slow work before the transaction; raise the tool's timeout only if all writers can wait so long"
    )


class PremiseChanged(CallError):
    """A fact that the call rests on is no longer the same as when the agent last knew it, so it was not made.

    `fact` names it, `was` and `now` are its values. It is recorded and comes back the same after a crash; a
    new call rests on the new value. In run.tools the model gets this as its answer, so that it can decide
    again.
    """

    code = "T219"
    default_safe = "The call was not made; both values are recorded, and permissions for this call are void."
    default_remedy = "decide again on what is true now, and make a new call if that is still right"


class PremiseUnread(CallError):
    """A fact that the call rests on could not be read, or not be compared, so the call was not made.

    `fact` names it; the message tells the fact's own error.
    """

    code = "T220"
    default_safe = "The call was not made; that is recorded, and the step goes on."
    default_remedy = (
        "mend the source of the fact, then make a new call, or perdure retry RUN if the step did not handle"
        " it; retry= on the tool tries again by itself"
    )


class NotAwaited(CallError):
    """A step has returned and left a call that it had not awaited.

    `tools` names what was called; none of it was made.
    """

    code = "T222"
    default_safe = "The call was not made; the step is not committed, and the run is held."
    default_remedy = (
        "await it: await pay(5); several at once: await run.gather(pay(5), mail(to)); then perdure retry RUN"
    )


class ChildCameBack(CallError):
    """A process was forked inside a run's code, and the child came back out of it instead of ending there.

    The child is a copy of a process that drives runs: it ends at once, with exit code 1, and says so on its
    standard error. With `sys.exit` in the child it ends with that code and says nothing. The parent notices
    nothing of it.
    """

    code = "T223"
    default_safe = "The child has written nothing; its parent drives the run, and goes on."
    default_remedy = "end the child where its work is done: os._exit(0); or use subprocess or multiprocessing"


class ChildFailed(CallError):
    """A run that this step spawned has ended without a result.

    It failed, was cancelled or was retired: `status` says which, and `run_id` names it. Raised where it was
    spawned, live and replayed alike; in run.tools the model gets this as its answer.
    """

    code = "T221"
    default_safe = "What the child had done is done; what it had open has a verdict."
    default_remedy = "perdure show CHILD tells what it did; catch ChildFailed to go on without its result"
