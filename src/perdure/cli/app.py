"""MODULE:AGENT or FILE.py[:AGENT] on a command line -> the Agent.

The one place of the command line that loads user code.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from perdure.agent import Agent
from perdure.errors import AppNotFound, PerdureError


def load(text: str) -> Agent[Any, Any, Any]:
    """The agent that `text` names.

    FILE.py or MODULE, then `:` and the variable that holds the agent; the variable may be left out if the
    module has only one. Raises AppNotFound, and what perdure raises for a wrong declaration.
    """
    place, _, variable = text.rpartition(":") if _has_variable(text) else (text, "", "")
    module = _module(place)
    found = {name: value for name, value in vars(module).items() if isinstance(value, Agent)}
    if variable:
        agent = _attribute(module, variable)
        if not isinstance(agent, Agent):
            kind = "is not there" if agent is None else f"is a {type(agent).__name__}, not an Agent"
            raise AppNotFound(f"{variable} in {place} {kind}; agents there: {_listed(found)}")
        return agent
    agents = list({id(agent): agent for agent in found.values()}.values())
    if len(agents) != 1:
        what = "no agent" if not agents else "several agents"
        raise AppNotFound(f"{place} has {what}: {_listed(found)}", remedy=_choose(place, found))
    return agents[0]


def named_in(text: str) -> Any:
    """What FILE.py:NAME or MODULE:NAME names, whatever it is. Raises AppNotFound."""
    place, _, variable = text.rpartition(":")
    if not _has_variable(text):
        raise AppNotFound(f"{text} names nothing in a file", remedy="name it: FILE.py:NAME")
    module = _module(place)
    value = _attribute(module, variable)
    if value is None:
        raise AppNotFound(f"{variable} is not in {place}", remedy="name what is there: FILE.py:NAME")
    return value


def _has_variable(text: str) -> bool:
    """Whether a variable is named: the part after the last colon is a name, so that C:\\agent.py has none."""
    place, colon, variable = text.rpartition(":")
    return bool(colon and place) and all(part.isidentifier() for part in variable.split("."))


def _choose(place: str, found: dict[str, Any]) -> str:
    if not found:
        return "declare one: desk = Agent(...), or name another file"
    return f"name one, as in {place}:{next(iter(found))}"


def _listed(found: dict[str, Any]) -> str:
    return ", ".join(found) or "none"


def _attribute(module: ModuleType, variable: str) -> Any:
    value: Any = module
    for part in variable.split("."):
        value = getattr(value, part, None)
    return value


def _module(place: str) -> ModuleType:
    path = Path(place)
    if path.suffix == ".py" or path.exists():
        if not path.is_file():
            raise AppNotFound(
                f"there is no file {path.absolute()}", remedy="perdure init writes an agent.py to start from"
            )
        return _from_file(path.resolve())
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(error.name + ".")):
            raise AppNotFound(f"there is no file and no module {place}", where=str(Path.cwd())) from error
        raise _broken(place, error) from error
    except PerdureError:
        raise
    except Exception as error:
        raise _broken(place, error) from error


def _from_file(path: Path) -> ModuleType:
    """The module in a file, as `python FILE` would find its neighbours; loading a file twice gives the same
    module.
    """
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if known is not None or not name.isidentifier():
        # The same name in every process: recorded errors are known again by the name of their module.
        name = f"perdure_app_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}"
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AppNotFound(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, PerdureError) or not isinstance(error, Exception):
            raise
        raise _broken(str(path), error) from error
    return module


def _broken(place: str, error: Exception) -> AppNotFound:
    """The user's module raised while it was loaded: say what and where in their words."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _ours(frame.filename)]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    return AppNotFound(
        f"{place} cannot be loaded: {type(error).__name__}: {error}",
        where=where,
        remedy="mend what it says; --trace shows the whole traceback",
    )


def _ours(filename: str) -> bool:
    return filename.startswith("<frozen") or "/perdure/cli/" in filename.replace("\\", "/")
