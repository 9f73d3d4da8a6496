"""A command line to call, and a store with a run of each kind."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.cli import main
from perdure.clock import SECOND, SYSTEM
from perdure.codec import encode
from perdure.state import events as e
from perdure.store.protocol import NEVER
from tests.unit.cli.stores import keep
from tests.unit.timeline.past import HELD, RECONCILED, STARTED


@dataclass(frozen=True)
class Answer:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Command = Callable[..., Answer]


@pytest.fixture
def perdure(capsys: pytest.CaptureFixture[str]) -> Command:
    """`perdure(*arguments)` runs the program in this process."""

    def run(*arguments: str | Path) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert isinstance(leaving.value.code, int)
        return Answer(leaving.value.code, captured.out, captured.err)

    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to be in, with no store named anywhere; what is loaded from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("PERDURE_STORE", "PERDURE_BANK", "PERDURE_BANK_PAUSE", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(tmp_path) in str(getattr(module, "__file__", None)):
            del sys.modules[name]


@pytest.fixture(scope="session")
def four_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of four runs: one ended, one held, one waiting, one that nobody has claimed."""
    folder = tmp_path_factory.mktemp("four_runs")
    path = folder / "perdure.db"
    keep(path, "order-1042", RECONCILED, status="succeeded", terminal=True, due_at=NEVER)
    info = encode({"reason": "unknown-outcome", "detail": "refund was called and its reply never came"})
    keep(path, "order-1043", HELD, status="held", due_at=NEVER, info=info)
    until = SYSTEM.now() + 3600 * SECOND
    keep(path, "nap-7", (STARTED, e.WaitOpened("1/0", "sleep", until)), status="waiting", due_at=until)
    keep(path, "fresh-1", (STARTED,))
    return folder


@pytest.fixture
def store(place: Path, four_runs: Path) -> Path:
    """./perdure.db, a copy of that store."""
    shutil.copytree(four_runs, place, dirs_exist_ok=True)
    return place / "perdure.db"
