"""The `perdure` program: its commands by name, and what becomes of errors.

A command's module is loaded when the command is called, so that looking at runs stays fast. Whatever goes
wrong leaves as an exit code of `exits` and, on standard error, as what happened, what is safe and a remedy;
with --json as one document on standard output. A traceback of perdure's own is shown only with --trace.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from perdure.cli import exits
from perdure.cli.document import print_document
from perdure.cli.options import Options
from perdure.errors import LoopEnded, PerdureError

SECTIONS: dict[str, tuple[str, ...]] = {
    "Begin": ("demo", "init", "run", "worker"),
    "Look": ("inbox", "runs", "show", "why", "state", "diff", "tail", "audit", "stats"),
    "Act": (
        "approve",
        "deny",
        "answer",
        "signal",
        "resolve",
        "effect",
        "release",
        "retry",
        "cancel",
        "retire",
        "budget",
        "fork",
    ),
    "Keep": ("export", "import", "prune", "compact", "erase", "rotate"),
    "Care": ("preflight", "replay", "simulate", "migrate", "restore", "verify", "doctor", "explain"),
    "Learn": ("lab",),
}
"""Every command, in the order of the help page."""

_HOMES = {
    "demo": "start",
    "init": "start",
    "run": "run",
    "worker": "worker",
    "tail": "tail",
    "state": "past",
    "diff": "past",
    "answer": "messages",
    "signal": "messages",
    "preflight": "preflight",
    "replay": "replay",
    "simulate": "simulate",
    "migrate": "migrate",
    "restore": "restore",
    "export": "keep",
    "import": "keep",
    "prune": "keep",
    "compact": "compact",
    "erase": "erase",
    "rotate": "rotate",
    "verify": "care",
    "doctor": "care",
    "explain": "care",
    "resolve": "act",
    "release": "act",
    "retry": "act",
    "cancel": "act",
    "retire": "act",
    "budget": "budget",
    "fork": "fork",
    "effect": "fork",
    "inbox": "asked",
    "approve": "permit",
    "deny": "permit",
    "audit": "asked",
    "lab": "lab",
}
"""The module in which a command lives, where it is not `read`."""


class Program(click.Group):
    """A group whose commands are loaded when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name."""
        return [name for names in SECTIONS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"perdure.cli.{_HOMES.get(cmd_name, 'read')}")
        command: click.Command = getattr(module, "import_" if cmd_name == "import" else cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is meant. Raises UsageError, which names the nearest one."""
        known = self.list_commands(ctx)
        if args[0] not in known:
            from difflib import get_close_matches  # 6 ms that no other command pays

            if near := get_close_matches(args[0], known, n=1):
                ctx.fail(f"no such command {args[0]!r}; did you mean {near[0]}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help page's list, in sections."""
        for section, names in SECTIONS.items():
            known = ((name, self.get_command(ctx, name)) for name in names)
            rows = [(name, command.get_short_help_str(90)) for name, command in known if command]
            with formatter.section(section):
                formatter.write_dl(rows)


@click.command(
    cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="perdure", message="perdure %(version)s")
def program() -> None:
    """perdure: let an LLM agent survive a crash, a deploy, a lost reply or a day-long wait.

    Start with `perdure demo`. Every command takes --json; `perdure explain CODE` explains an error.
    """


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the program with these arguments (default: the process's own) and exit."""
    _open_streams()
    _forgive_narrow_encodings()
    options = Options()
    try:
        result = program.main(args=arguments, prog_name="perdure", obj=options, standalone_mode=False)
        sys.stdout.flush()
        code = result if isinstance(result, int) else exits.OK
    except PerdureError as error:
        code = _told(error, options)
    except click.exceptions.Exit as leaving:
        code = leaving.exit_code
    except click.ClickException as error:
        code = _misused(error, options)
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped", err=True)
        code = exits.INTERRUPTED
    except BrokenPipeError:  # the reader left: nothing more to say
        _hush()
        code = exits.FAILURE
    except OSError as fault:
        if fault.errno in _UNWRITABLE:
            options.json = False  # there is no room for a document either
            code = _told(_unsaid(fault), options)
            _hush()
        else:
            code = _told(_wrapped(fault), options)
    except Exception as fault:  # noqa: BLE001 - a fault of perdure's own is told like any other error
        code = _told(_wrapped(fault), options)
    except BaseException as fault:  # an import of asyncio is dear where no command needs it
        if type(fault).__name__ != "CancelledError":
            raise
        code = _told(_wrapped(fault), options)
    sys.exit(code)


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def _unsaid(full: OSError) -> PerdureError:
    """What a store cannot write is a store's error; what is left is the output."""
    return PerdureError(
        f"the output could not be written whole: {full.strerror}",
        safe="The store is as the command left it; a command that only looks has changed nothing.",
        remedy="send the output where there is room, and look at what became of the run: perdure runs",
    )


def _hush() -> None:
    """Let nothing more be written, not even what is still in a buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_streams() -> None:
    """A program that was started with a stream closed (`>&-`) has none; it says what it says to nobody."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115  (for as long as the process lives)
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _wrapped(fault: BaseException) -> PerdureError:
    from perdure.agent.blocking import was_stopped

    error: PerdureError
    if was_stopped(fault):
        error = LoopEnded("a tool, or other code in it, has stopped the event loop")
    elif not isinstance(fault, Exception):
        error = LoopEnded("a tool, or other code in it, has cancelled what this command waits for")
    else:
        error = _own(fault)
    error.__cause__ = fault
    return error


def _own(fault: Exception) -> PerdureError:
    return PerdureError(
        f"a fault in perdure itself: {type(fault).__name__}: {fault}",
        safe="What was acknowledged before is safe; perdure verify tells what is whole.",
        remedy="the same command with --trace shows where; please report it",
    )


def _forgive_narrow_encodings() -> None:
    """A terminal that lacks a character shows an escape instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _told(error: PerdureError, options: Options) -> int:
    from perdure.cli.notice import error_document, error_lines

    if options.trace:
        import traceback

        click.echo("".join(traceback.format_exception(error)), err=True)
    code = exits.code_of(error)
    if options.json:
        print_document(error_document(error, code, options.store))
    else:
        for line in error_lines(error, options.store):
            click.echo(line, err=True)
    return code


def _misused(error: click.ClickException, options: Options) -> int:
    if options.json or "--json" in sys.argv:
        document: dict[str, Any] = {"code": None, "what": error.format_message(), "exit": error.exit_code}
        print_document({"error": document})
    else:
        error.show()
    return error.exit_code
