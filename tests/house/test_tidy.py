"""The house rules that a program can check, file by file.

* Ceilings: a function has at most 70 lines, a file 600, a line 110 characters.
* A docstring on every file, and in src on every public name, class, function and method.
* No file is named for nothing (core, utils, ...). No text has leftover markers, machine paths or registry
  hosts in it.
* No bare `except:`, no `except Exception: pass`; nothing in src runs or loads foreign code (pickle, eval).
* `state`, `codec` and `recovery` are pure: no clock, chance, sleep, file, socket or async.

A method that a base class has documented needs no second docstring; neither do overloads, setters and type
variables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.house.source import Source, files, python, read

LINES_OF_FUNCTION = 70
LINES_OF_FILE = 600
LENGTH_OF_LINE = 110
VAGUE = {
    "core",
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "manager",
    "managers",
    "base",
    "misc",
    "stuff",
}
PURE = ("src/perdure/state/", "src/perdure/codec/", "src/perdure/codec.py", "src/perdure/recovery/")
FOREIGN_CODE = {"pickle", "cPickle", "_pickle", "shelve", "dill", "cloudpickle", "jsonpickle"}
IMPURE_MODULES = {
    *("asyncio", "concurrent", "http", "io", "logging", "multiprocessing", "os", "pathlib", "queue"),
    *("random", "sched", "secrets", "select", "selectors", "shutil", "socket", "ssl", "subprocess", "sys"),
    *("tempfile", "threading", "time", "urllib"),
}
EVERYTHING = {"Exception", "BaseException"}
IMPURE_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "uuid7", "open", "print", "input"}

# Written in two halves, so that this file does not offend against itself.
MARKER = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
MACHINE = re.compile(
    r"(?<![\w.$}>-])/(?:wo" + r"rk|ro" + r"ot|home/[a-z]\w*|Users/\w+|opt/(?:py" + r"pi|wheels))/"
    r"|(?:py" + r"pi\.org|pythonhosted\.org|registry\.npmjs\.org|extra-index-" + r"url)"
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def ceilings(source: Source) -> Iterator[str]:
    """Functions, files and lines above their ceiling."""
    lines = source.text.splitlines()
    if len(lines) > LINES_OF_FILE:
        yield f"{source.path}: {len(lines)} lines, at most {LINES_OF_FILE}: it holds more than one noun"
    for number, line in enumerate(lines, 1):
        if len(line) > LENGTH_OF_LINE:
            yield f"{source.path}:{number}: a line of {len(line)}, at most {LENGTH_OF_LINE}"
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LINES_OF_FUNCTION:
                place = f"{source.path}:{node.lineno}"
                yield f"{place}: {node.name} has {length} lines, at most {LINES_OF_FUNCTION}"


def head(source: Source) -> Iterator[str]:
    """A file without its docstring."""
    if not ast.get_docstring(source.tree):
        yield f"{source.path}:1: no docstring: what it knows, what it refuses to know"


def names(path: str) -> Iterator[str]:
    """A file or folder that is named for nothing."""
    for part in path.split("/"):
        if VAGUE & set(part.split(".")[0].lower().split("_")):
            yield f"{path}: `{part}` names nothing"


def _said(node: ast.expr) -> str:
    """The last word of a dotted expression: `typing.overload` is overload."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def promises(sources: tuple[Source, ...]) -> dict[str, set[str]]:
    """Class name -> the methods it documents, its own and its bases'."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                told = {f.name for f in node.body if isinstance(f, Function) and ast.get_docstring(f)}
                own.setdefault(node.name, set()).update(told)
                bases.setdefault(node.name, set()).update(_said(base) for base in node.bases)
    for _ in range(len(bases)):
        before = sum(map(len, own.values()))
        for name, above in bases.items():
            own[name] |= {method for base in above if base != name for method in own.get(base, ())}
        if sum(map(len, own.values())) == before:
            break
    return own


def _functions(source: Source, body: list[ast.stmt], known: set[str], owner: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, Function) or node.name.startswith("_") or ast.get_docstring(node):
            continue
        if node.name.startswith("test_"):  # a shipped test: its name is what it promises
            continue
        marks = {_said(mark) for mark in node.decorator_list}
        if node.name not in known and not marks & {"overload", "setter", "deleter"}:
            yield f"{source.path}:{node.lineno}: {owner}{node.name} has no docstring"


def _constants(source: Source) -> Iterator[str]:
    """Public module-level names with neither a docstring below nor a comment above or beside."""
    lines = source.text.splitlines()
    for node, after in zip(source.tree.body, [*source.tree.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        public = [t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("_")]
        if not public or (
            node.value is not None and _said(node.value) in ("TypeVar", "ParamSpec", "getLogger")
        ):
            continue
        told = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        above = lines[node.lineno - 2].lstrip().startswith("#") if node.lineno > 1 else False
        beside = "  # " in lines[(node.end_lineno or node.lineno) - 1] or "  # " in lines[node.lineno - 1]
        if not (told or above or beside):
            yield f"{source.path}:{node.lineno}: {public[0]} has no docstring"


def docstrings(source: Source, promised: dict[str, set[str]]) -> Iterator[str]:
    """Public names of a module that say nothing about themselves."""
    yield from _constants(source)
    yield from _functions(source, source.tree.body, set(), "")
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield f"{source.path}:{node.lineno}: {node.name} has no docstring"
            above = {method for base in node.bases for method in promised.get(_said(base), ())}
            yield from _functions(source, node.body, above, f"{node.name}.")


def _silent(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(node, ast.Pass | ast.Continue)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in body
    )


def _caught(kind: ast.expr) -> set[str]:
    return {_said(one) for one in (kind.elts if isinstance(kind, ast.Tuple) else [kind])}


def swallowed(source: Source) -> Iterator[str]:
    """Handlers that catch everything and say nothing."""
    for node in ast.walk(source.tree):
        place = f"{source.path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield f"{place}: a bare except"
            elif _caught(node.type) & EVERYTHING and _silent(node.body):
                yield f"{place}: an error swallowed"
        elif isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call):
            call = node.context_expr
            place = f"{source.path}:{call.lineno}"
            if _said(call) == "suppress" and {_said(one) for one in call.args} & EVERYTHING:
                yield f"{place}: an error swallowed"


def _imported(node: ast.AST) -> list[tuple[str, str]]:
    """(module, name) pairs that a statement imports; the name is "" for the module itself."""
    if isinstance(node, ast.Import):
        return [(alias.name, "") for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [(node.module or "", alias.name) for alias in node.names]
    return []


def foreign_code(source: Source) -> Iterator[str]:
    """Imports and calls that run what somebody stored."""
    for node in ast.walk(source.tree):
        place = f"{source.path}:{getattr(node, 'lineno', 0)}"
        for module, name in _imported(node):
            if module.split(".")[0] in FOREIGN_CODE or (module == "marshal" and name in ("load", "loads")):
                yield f"{place}: imports {module}"
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("eval", "exec", "marshal.loads", "marshal.load"):
                yield f"{place}: calls {called}"


def _impure_import(module: str, name: str) -> bool:
    if module == "perdure.clock":  # units of time are words, a clock is a door
        return name == "SYSTEM" or not name.isupper()
    if module == "pathlib":  # a path is a value like any other; what it opens is caught as a call
        return not name
    return module.split(".", maxsplit=1)[0] in IMPURE_MODULES


def impure(source: Source) -> Iterator[str]:
    """What a pure room must not do."""
    for node in ast.walk(source.tree):
        place = f"{source.path}:{getattr(node, 'lineno', 0)}"
        for module, name in _imported(node):
            if _impure_import(module, name):
                yield f"{place}: a pure room imports {module}"
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{place}: a pure room has no async"
        if isinstance(node, ast.Call) and _said(node) in IMPURE_CALLS:
            yield f"{place}: a pure room calls {ast.unparse(node.func)}"


def leftovers(path: str, text: str) -> Iterator[str]:
    """Markers of unfinished work, and places that exist on one machine only."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in (*MARKER.finditer(line), *MACHINE.finditer(line)):
            yield f"{path}:{number}: `{found[0]}` does not belong in the repository"


CODE = python("src", "tests", "bench", "soak", "examples", "docs")
LIBRARY = python("src")
PROMISED = promises(LIBRARY)


def _told(complaints: Iterator[str]) -> None:
    found = list(complaints)
    if found:
        pytest.fail("\n".join(["the house complains:", *found]), pytrace=False)


@pytest.mark.parametrize("source", CODE, ids=lambda source: source.path)
def test_a_file_is_tidy(source: Source) -> None:
    """Ceilings, head, name, handlers."""
    _told(one for rule in (ceilings, head, swallowed) for one in rule(source))


@pytest.mark.parametrize("source", LIBRARY, ids=lambda source: source.path)
def test_the_library_explains_itself(source: Source) -> None:
    """Public names are documented; nothing stored is ever run."""
    _told(foreign_code(source))
    _told(docstrings(source, PROMISED))


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_are_pure(room: str) -> None:
    """state, codec and recovery only compute."""
    sources = [source for source in LIBRARY if source.path.startswith(room)]
    if not sources:
        pytest.skip(f"{room} is not there")
    _told(one for source in sources for one in impure(source))


def test_names_name_something() -> None:
    """No core, no utils, no manager, anywhere."""
    _told(one for path in files() for one in names(path))


def test_no_text_has_leftovers() -> None:
    """Every text file of the repository, the licence and the documentation included."""
    texts = ((path, read(path)) for path in files())
    _told(one for path, text in texts if text is not None for one in leftovers(path, text))


def _file(text: str, path: str = "src/perdure/state/fold.py") -> Source:
    return Source(path, text)


LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 70


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n" * 601, "601 lines"),
        ("x = '" + "a" * 110 + "'", "a line of 116"),
        (LONG_FUNCTION, "f has 71 lines"),
        ("class A:\n" + "    " + LONG_FUNCTION.replace("\n", "\n    ").rstrip(), "f has 71 lines"),
    ],
)
def test_control_ceilings(text: str, said: str) -> None:
    """Each ceiling holds, and what just fits is let through."""
    assert [said in one for one in ceilings(_file(text))] == [True]
    assert not list(ceilings(_file("x = 1\n" * 600)))
    assert not list(ceilings(_file("def f():\n" + "    x = 1\n" * 69)))
    assert not list(ceilings(_file("x = '" + "a" * 104 + "'")))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def act(): ...", "act has no docstring"),
        ("async def act(): ...", "act has no docstring"),
        ("class Act: ...", "Act has no docstring"),
        ("class Act:\n    '''An act.'''\n    def go(self): ...", "Act.go has no docstring"),
        ("LIMIT = 3\n", "LIMIT has no docstring"),
        ("Kind: TypeAlias = int\n", "Kind has no docstring"),
    ],
)
def test_control_docstrings(text: str, said: str) -> None:
    """A public name without a word is seen."""
    assert [said in one for one in docstrings(_file(text), {})] == [True]
    assert list(head(_file(text)))


def test_control_docstrings_that_are_enough() -> None:
    """A documented verb needs no echo in the class that keeps it."""
    promise = _file("class Store:\n    'S.'\n    def read(self):\n        'R.'\nclass Half(Store): 'H.'")
    keeper = _file(
        "T = TypeVar('T')\nLIMIT = 3  # per run\n# per run\nMORE = 4\nKind = int\n'''A kind.'''\n"
        "class Memory(Half):\n    '''M.'''\n    def read(self): ...\n    def _own(self): ..."
    )
    assert not list(docstrings(keeper, promises((promise, keeper))))
    assert len(list(docstrings(keeper, {}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "try: f()\nexcept: g()",
        "try: f()\nexcept Exception: pass",
        "try: f()\nexcept (ValueError, BaseException): ...",
        "for x in y:\n    try: f()\n    except Exception: continue",
        "with contextlib.suppress(Exception): f()",
    ],
)
def test_control_swallowed_errors(text: str) -> None:
    """Silence about any error at all is seen; silence about one named error is not."""
    assert len(list(swallowed(_file(text)))) == 1
    assert not list(swallowed(_file("try: f()\nexcept KeyError: pass\nexcept Exception as e: tell(e)")))


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "from marshal import loads",
        "eval('1')",
        "exec('x')",
    ],
)
def test_control_foreign_code(text: str) -> None:
    """Whatever runs stored bytes is seen."""
    assert len(list(foreign_code(_file(text)))) == 1
    assert not list(foreign_code(_file("import marshal\nmarshal.dumps(code)\nmodel.eval()")))


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "def f():\n    import random",
        "from perdure.clock import SYSTEM",
        "from perdure.clock import Clock",
        "datetime.now()",
        "dt.datetime.utcnow()",
        "uuid.uuid4()",
        "open('x')",
        "import socket",
        "async def f(): ...",
    ],
)
def test_control_pure_rooms(text: str) -> None:
    """Each door out of a pure room is seen."""
    assert len(list(impure(_file(text)))) == 1
    assert not list(
        impure(_file("from datetime import datetime, time\nfrom perdure.clock import SECOND\nUUID(x)"))
    )


def test_control_names_and_leftovers() -> None:
    """Vague names, unfinished work, one machine's paths."""
    assert list(names("src/perdure/store/sqlite_utils.py"))
    assert list(names("src/perdure/core/x.py"))
    assert not list(names("src/perdure/store/sqlite.py"))
    for text in (
        "# TO" + "DO later",
        "see /ro" + "ot/x",
        "cd /wo" + "rk/main",
        "https://py" + "pi.org/simple",
    ):
        assert len(list(leftovers("a.md", text))) == 1, text
    assert not list(leftovers("a.md", "a todo list, {root}/x, docs/work/x, mktemp -d x.XXXXXX"))
