"""The pretend bank: a book that survives the process, and that pays twice if asked twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.demo import bank
from perdure.demo.ledger import Ledger, NoSuchOrder, money


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    for name in ("PERDURE_STORE", "PERDURE_BANK", "PERDURE_BANK_PAUSE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


async def test_what_was_paid_is_found_by_its_key() -> None:
    assert await bank.find("k-1") is None
    receipt = await bank.refund("o-77", 1200, key="k-1")
    assert await bank.find("k-1") == receipt == "rf-1"
    assert (await bank.order("o-77"))["refunded_cents"] == 1200
    assert await bank.find("k-2") is None


async def test_a_naive_repeat_pays_twice_and_the_book_shows_it() -> None:
    await bank.refund("o-77", 1200, key="k-1")
    await bank.refund("o-77", 1200, key="k-1")
    assert [(paid.receipt, paid.cents, paid.key) for paid in bank.ledger().entries()] == [
        ("rf-1", 1200, "k-1"),
        ("rf-2", 1200, "k-1"),
    ]
    assert (await bank.order("o-77"))["refunded_cents"] == 2400
    assert await bank.find("k-1") == "rf-1"


async def test_an_unknown_order_is_refused_and_nothing_is_paid() -> None:
    with pytest.raises(NoSuchOrder):
        await bank.refund("o-1", 1200, key="k-1")
    with pytest.raises(NoSuchOrder):
        await bank.order("o-1")
    assert bank.ledger().entries() == []


def test_the_book_survives_the_process_and_can_be_printed(place: Path) -> None:
    program = (
        "import asyncio\nfrom perdure.demo import bank\nasyncio.run(bank.refund('o-78', 4550, key='k-9'))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert [paid.order_id for paid in Ledger(place / "bank.db").entries()] == ["o-78"]
    shown = subprocess.run(
        [sys.executable, "-m", "perdure.demo.bank"], check=True, capture_output=True, text=True
    ).stdout
    assert shown.startswith("bank.db: 1 refund")
    assert "rf-1" in shown
    assert "$45.50" in shown
    assert "k-9" in shown


@pytest.mark.parametrize(
    ("names", "path"),
    [
        ({}, "bank.db"),
        ({"PERDURE_STORE": "data/perdure.db"}, "data/bank.db"),
        ({"PERDURE_STORE": "sqlite:///data/perdure.db"}, "data/bank.db"),
        ({"PERDURE_STORE": "postgresql://host/db"}, "bank.db"),
        ({"PERDURE_STORE": "memory:"}, "bank.db"),
        ({"PERDURE_BANK": "other.db", "PERDURE_STORE": "data/perdure.db"}, "other.db"),
    ],
)
def test_the_book_lies_beside_the_store(
    monkeypatch: pytest.MonkeyPatch, names: dict[str, str], path: str
) -> None:
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    assert bank.ledger().path == Path(path)


def test_money() -> None:
    assert [money(cents) for cents in (5, 1200, 123456)] == ["$0.05", "$12.00", "$1,234.56"]
