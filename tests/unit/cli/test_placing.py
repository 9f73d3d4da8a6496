"""Where runs stand among those that wait: as `run` takes it, and as `runs` and `why` show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import Command

APP = """
from perdure import Agent

desk = Agent("desk", state=dict, start=lambda goal: {})


@desk.step
async def step(run):
    run.finish("done")
"""

NIGHT = (
    "--queue",
    "night",
    "--tag",
    "gpu",
    "--tag",
    "eu",
    "--priority",
    "3",
    "--key",
    "c-7",
    "--key-limit",
    "2",
)


@pytest.fixture
def asked(perdure: Command, tmp_path: Path) -> tuple[str, str]:
    """A program and a store with a run that stands somewhere, and a plain one."""
    app, store = tmp_path / "app.py", str(tmp_path / "runs.db")
    app.write_text(APP)
    for name, where in (("night", NIGHT), ("plain", ())):
        said = perdure("run", str(app), "go", "--id", name, "--detach", *where, "--store", store)
        assert said.code == 0, said.err
    return str(app), store


def test_a_new_run_stands_where_it_was_asked_to(perdure: Command, asked: tuple[str, str]) -> None:
    runs = {run["run_id"]: run for run in perdure("runs", "--json", "--store", asked[1]).document["runs"]}
    place = {name: runs["night"][name] for name in ("queue", "tags", "priority", "limit_key", "key_limit")}
    assert place == {
        "queue": "night",
        "tags": ["eu", "gpu"],
        "priority": 3,
        "limit_key": "c-7",
        "key_limit": 2,
    }
    assert (runs["plain"]["queue"], runs["plain"]["tags"], runs["plain"]["limit_key"]) == (
        "default",
        [],
        None,
    )


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--queue", "night"), {"night"}),
        (("--queue", "default"), {"plain"}),
        (("--tag", "gpu"), {"night"}),
        (("--tag", "gpu", "--tag", "us"), set()),
        (("--priority", "3"), {"night"}),
        (("--priority", "0"), {"night", "plain"}),
        (("--key", "c-7"), {"night"}),
    ],
)
def test_lists_are_filtered_by_it(
    perdure: Command, asked: tuple[str, str], filters: tuple[str, ...], found: set[str]
) -> None:
    document = perdure("runs", *filters, "--json", "--store", asked[1]).document
    assert {run["run_id"] for run in document["runs"]} == found


def test_people_see_it_where_it_is_not_as_usual(perdure: Command, asked: tuple[str, str]) -> None:
    assert "night +3 eu gpu key c-7" in perdure("runs", "--store", asked[1]).out
    why = perdure("why", "night", "--store", asked[1]).out
    assert "queue night, priority 3, needs a worker with eu, gpu" in why
    assert "c-7, at most 2 at once; 0 others are at work: has room" in why
    assert "MODULE:AGENT --tag eu --tag gpu    serve every open run of desk" in why
    assert "queue" not in perdure("why", "plain", "--store", asked[1]).out


def test_a_detached_run_names_a_worker_that_would_take_it(
    perdure: Command, asked: tuple[str, str], tmp_path: Path
) -> None:
    app, store = asked
    told = perdure("run", app, "go", "--id", "far", "--detach", *NIGHT, "--store", store).out
    assert f"{app} --tag gpu --tag eu\n" in told


@pytest.mark.parametrize("wrong", [("--queue", "two words"), ("--priority", "101"), ("--key-limit", "2")])
def test_what_cannot_be_is_refused_before_anything_is_made(
    perdure: Command, asked: tuple[str, str], wrong: tuple[str, ...]
) -> None:
    said = perdure("run", asked[0], "go", "--id", "new", "--detach", *wrong, "--store", asked[1])
    assert said.code == 2, said.out
    assert "C101" in said.err
