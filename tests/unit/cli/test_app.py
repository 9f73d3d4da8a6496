"""MODULE:AGENT and FILE:AGENT: what is found, and what is said when it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cli.app import load
from perdure.errors import AppNotFound, BadDeclaration

ONE = "from perdure import Agent\ndesk = Agent('desk')\n"


def test_the_only_agent_of_a_file_need_not_be_named(place: Path) -> None:
    (place / "one.py").write_text(ONE + "again = desk\n")
    assert load("one.py").name == "desk"
    assert load("one.py:desk") is load(str(place / "one.py"))


def test_one_of_several_is_named(place: Path) -> None:
    (place / "two.py").write_text(ONE + "class Shop:\n    till = Agent('till')\nother = Agent('other')\n")
    assert load("two.py:other").name == "other"
    assert load("two.py:Shop.till").name == "till"
    with pytest.raises(AppNotFound, match=r"several agents: desk, other") as refused:
        load("two.py")
    assert refused.value.remedy == "name one, as in two.py:desk"


def test_a_module_is_found_from_the_current_folder_and_a_file_finds_its_neighbours(place: Path) -> None:
    (place / "shop").mkdir()
    (place / "shop" / "__init__.py").touch()
    (place / "shop" / "agents.py").write_text(ONE)
    assert load("shop.agents:desk").name == "desk"
    (place / "deep").mkdir()
    (place / "deep" / "neighbour.py").write_text("NAME = 'from a neighbour'\n")
    (place / "deep" / "agent.py").write_text(
        "from perdure import Agent\nfrom neighbour import NAME\na = Agent(NAME)\n"
    )
    assert load("deep/agent.py").name == "from a neighbour"


def test_files_of_one_name_are_told_apart(place: Path) -> None:
    for folder in ("a", "b"):
        (place / folder).mkdir()
        (place / folder / "agent.py").write_text(f"from perdure import Agent\nx = Agent('{folder}')\n")
    assert [load("a/agent.py").name, load("b/agent.py").name, load("a/agent.py").name] == ["a", "b", "a"]


def test_a_file_that_shares_its_name_has_the_same_module_name_in_every_process(place: Path) -> None:
    (place / "json.py").write_text(ONE + "class Oops(Exception): ...\n")
    program = "from perdure.cli.app import load, _from_file\nfrom pathlib import Path\n"
    program += "load('json.py')\nprint(_from_file(Path('json.py').resolve()).Oops.__module__)"
    names = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        names.add(done.stdout.strip())
    [name] = names
    assert name.startswith("perdure_app_")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("missing.py", "there is no file"),
        ("missing.module", "there is no file and no module missing.module"),
        ("missing:desk", "there is no file and no module missing"),
        ("one.py:till", "till in one.py is not there; agents there: desk"),
        ("one.py:number", "number in one.py is a int, not an Agent"),
        ("none.py", "none.py has no agent: none"),
        (".", "there is no file"),
    ],
)
def test_what_is_not_there_is_said(place: Path, text: str, said: str) -> None:
    (place / "one.py").write_text(ONE + "number = 7\n")
    (place / "none.py").touch()
    with pytest.raises(AppNotFound) as refused:
        load(text)
    assert said in refused.value.what


@pytest.mark.parametrize(
    ("source", "said", "line"),
    [
        ("import perdure\n\n1 / 0\n", "ZeroDivisionError: division by zero", 3),
        ("def f(:\n", "SyntaxError", 1),
        ("x = 1\nimport not_a_package\n", "No module named 'not_a_package'", 2),
    ],
)
def test_a_module_that_cannot_be_loaded_is_told_by_its_own_line(
    place: Path, source: str, said: str, line: int
) -> None:
    (place / "broken.py").write_text(source)
    for text in ("broken.py", "broken"):
        with pytest.raises(AppNotFound) as refused:
            load(text)
        assert said in refused.value.what
        assert refused.value.where == f"{place / 'broken.py'}:{line}"
    assert "broken" not in sys.modules


def test_a_wrong_declaration_comes_as_itself(place: Path) -> None:
    (place / "wrong.py").write_text("from perdure import Agent\nAgent('')\n")
    for text in ("wrong.py", "wrong"):
        with pytest.raises(BadDeclaration):
            load(text)
