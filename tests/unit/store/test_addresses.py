"""What a store's address means, and that nothing stands in for a place that cannot be used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from perdure.errors import BadStoreURL, ExtraMissing, StoreUnavailable, at_store
from perdure.store import DEFAULT_PATH, MemoryStore, SQLiteStore, open_store


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PERDURE_STORE", raising=False)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("runs.db", "runs.db"),
        ("./a folder/runs.db", "a folder/runs.db"),
        ("sqlite:///runs.db", "runs.db"),
        ("sqlite:///sub/runs", "sub/runs"),
        ("{cwd}/runs.db", "runs.db"),
        ("sqlite:///{cwd}/runs.db", "runs.db"),
        ("d:", None),
        ("100%.db", "100%.db"),
    ],
)
def test_paths_are_sqlite_files(address: str, path: str | None, tmp_path: Path) -> None:
    store = open_store(address.replace("{cwd}", str(tmp_path)))
    assert isinstance(store, SQLiteStore)
    if path is not None:
        assert store.url == f"sqlite:///{tmp_path.resolve() / path}"
        again = open_store(store.url)
        assert again.url == store.url


def test_without_an_address_the_environment_decides_and_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_store().url == f"sqlite:///{tmp_path.resolve() / DEFAULT_PATH}"
    monkeypatch.setenv("PERDURE_STORE", "")
    assert open_store().url.endswith(DEFAULT_PATH)
    monkeypatch.setenv("PERDURE_STORE", "other.db")
    assert open_store().url.endswith("other.db")
    assert isinstance(open_store("memory:"), MemoryStore)


def test_a_home_folder_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/runs.db").url == f"sqlite:///{tmp_path.resolve() / 'runs.db'}"


def test_two_names_of_one_file_are_one_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    assert open_store("link/runs.db").url == open_store("real/runs.db").url


@pytest.mark.parametrize(
    "address",
    [
        "",
        " ",
        "mysql://host/db",
        "sqlite://",
        "sqlite:///",
        "sqlite:x",
        ":memory:",
        "memory:x",
        "file:x?mode=ro",
        "a\0b",
    ],
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(BadStoreURL):
        open_store(address)


@pytest.mark.parametrize("address", ["sqlite://runs.db", "sqlite:/runs.db", "sqlite:runs.db"])
def test_a_slash_too_few_is_told_with_what_was_meant(address: str) -> None:
    with pytest.raises(BadStoreURL) as caught:
        open_store(address)
    assert caught.value.remedy.endswith(" sqlite:///runs.db")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:secret@host/db",
        "postgres://ana:secret@host,other:5433/db?application_name=x",
        "postgresql://ana@host/db?password=secret&direct=host:5432",
        "postgresql:///db",
    ],
)
def test_a_database_is_a_store_whose_address_is_shown_without_its_password(address: str) -> None:
    store = open_store(address)
    assert type(store).__name__ == "PostgresStore"
    assert store.url.startswith(address[:10])
    assert "secret" not in store.url


@pytest.mark.parametrize("address", ["postgresql://ana:secret@host/db?no_such=1", "postgresql://[h/db"])
def test_a_database_address_that_no_driver_reads_is_refused(address: str) -> None:
    with pytest.raises(BadStoreURL) as caught:
        open_store(address)
    assert "secret" not in str(caught.value) + caught.value.url


def test_a_command_that_is_printed_names_a_database_without_its_password() -> None:
    way = at_store("perdure why r", "postgresql://ana:secret@host/db?password=secret&sslmode=require")
    assert way == "perdure why --store 'postgresql://ana@host/db?sslmode=require' r"
    assert at_store("perdure why r", "runs.db") == "perdure why --store runs.db r"


def test_without_its_driver_a_database_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("perdure.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ExtraMissing) as caught:
        open_store("postgresql://host/db")
    assert caught.value.remedy == 'pip install "perdure[postgres]"'


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(BadStoreURL) as caught:
        open_store("redis://ana:secret@host/0")
    assert "secret" not in str(caught.value) + caught.value.url


async def test_a_place_that_cannot_be_used_is_an_error_that_names_it(tmp_path: Path) -> None:
    for address in ("no/such/folder/runs.db", "."):
        store = open_store(address)
        with pytest.raises(StoreUnavailable) as caught:
            await store.open()
        assert str((tmp_path / address).resolve()).removesuffix("/runs.db") in caught.value.what
        assert caught.value.remedy
    assert os.listdir(tmp_path) == []
