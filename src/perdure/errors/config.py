"""What was declared or configured cannot work (C…)."""

from __future__ import annotations

from perdure.errors.family import PerdureError


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
    default_remedy = 'install the extra that the message names, such as pip install "perdure[postgres]"'


class AppNotFound(ConfigError):
    """MODULE:AGENT or FILE:AGENT on the command line names nothing that is an agent."""

    code = "C104"
    default_remedy = "name a module or file and the variable that holds the Agent: perdure run agent.py:desk"


class LoopRunning(ConfigError):
    """`run_sync` was called where an event loop is running already.

    It would block every other task of that loop.
    """

    code = "C105"
    default_remedy = "await agent.run(...) there; run_sync is for code that has no event loop"


class LoopEnded(ConfigError):
    """The event loop ended while runs were driven in it: code in it has stopped it, or cancelled its tasks.

    Such as a tool that calls `loop.stop()`, or that cancels everything in `asyncio.all_tasks()`.
    """

    code = "C107"
    default_safe = "What was recorded is kept; a call that was under way is unknown, as after a crash."
    default_remedy = "take that out of the tool, whose process belongs to every run in it; carry the runs on"


class NoRuntime(ConfigError):
    """An agent was to be run and the part of perdure that runs agents is not loaded."""

    code = "C106"
    default_remedy = "import perdure, not only perdure.agent"
