"""Keys of an object store that end while a job runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from pyarrow.fs import S3FileSystem

from jobs.engine.errors import ForeignFileError
from jobs.engine.read import file_io
from jobs.engine.read.file_io import EXPIRES_AT, MARGIN_MS, RETRY_S, TOKEN, RenewedFileIO, TableFileIO

HOUR_MS = 60 * 60 * 1000
FOLDER = "s3://lake/w/mine"


class Clock:
    """Stands in for time."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000_000_000

    def time(self) -> float:
        return self.now_ms / 1000

    def monotonic(self) -> float:
        return self.now_ms / 1000


class Catalog:
    """Gives out keys for an hour, and counts how often."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.given = 0
        self.is_away = False

    def give(self) -> Mapping[str, str]:
        if self.is_away:
            raise ConnectionError("the catalog does not answer")
        self.given += 1
        return {
            "s3.access-key-id": f"id {self.given}",
            "s3.secret-access-key": f"secret {self.given}",
            TOKEN: f"token {self.given}",
            EXPIRES_AT: str(self.clock.now_ms + HOUR_MS),
        }


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(file_io, "time", found)
    return found


@pytest.fixture
def catalog(clock: Clock) -> Catalog:
    return Catalog(clock)


@pytest.fixture
def io(catalog: Catalog) -> RenewedFileIO:
    return RenewedFileIO({"s3.region": "us-east-1", **catalog.give()}, FOLDER, catalog.give)


def test_keys_are_kept_until_shortly_before_their_end(io: RenewedFileIO, catalog: Catalog, clock: Clock) -> None:
    first = io.new_input(f"{FOLDER}/a")._filesystem
    clock.now_ms += HOUR_MS - MARGIN_MS
    assert io.new_output(f"{FOLDER}/b")._filesystem is first
    assert catalog.given == 1
    clock.now_ms += 1
    second = io.new_input(f"{FOLDER}/a")._filesystem
    assert isinstance(second, S3FileSystem)
    assert second is not first
    assert io.properties[TOKEN] == "token 2"
    assert io.properties["s3.region"] == "us-east-1"
    assert dict(io.properties)["s3.secret-access-key"] == "secret 2"
    assert catalog.given == 2


def test_a_catalog_that_is_away_is_asked_again_until_the_keys_end(
    io: RenewedFileIO, catalog: Catalog, clock: Clock
) -> None:
    catalog.is_away = True
    clock.now_ms += HOUR_MS - MARGIN_MS + 1
    assert io.properties[TOKEN] == "token 1"
    catalog.is_away = False
    assert io.properties[TOKEN] == "token 1"
    clock.now_ms += int(RETRY_S * 1000) + 1
    assert io.properties[TOKEN] == "token 2"
    catalog.is_away = True
    clock.now_ms += HOUR_MS
    with pytest.raises(ConnectionError):
        io.new_input(f"{FOLDER}/a")


def test_threads_that_need_new_keys_at_once_ask_for_them_once(
    io: RenewedFileIO, catalog: Catalog, clock: Clock
) -> None:
    def give_slowly() -> Mapping[str, str]:
        time.sleep(0.05)
        return catalog.give()

    slow = RenewedFileIO(dict(io.properties), FOLDER, give_slowly)
    clock.now_ms += HOUR_MS
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(slow.properties[TOKEN])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["token 2"] * 8


def test_what_shows_the_properties_hides_the_keys(io: RenewedFileIO) -> None:
    assert "secret 1" not in repr(io.properties)
    assert "s3.secret-access-key" in repr(io.properties)


@pytest.mark.parametrize(
    ("folder", "location"),
    [
        (FOLDER, "s3://lake/w/mine2/a.parquet"),
        (FOLDER, "s3://lake/w/mine/../other/a.parquet"),
        (FOLDER, "s3://lake/w/mine//a.parquet"),
        (FOLDER, "s3://sea/w/mine/a.parquet"),
        (FOLDER, "s3a://lake/w/mine/a.parquet"),
        (FOLDER, "file:///lake/w/mine/a.parquet"),
        ("file:///w/mine", "file:///w/other/a.parquet"),
        ("file:///w/mine", "/w/mine/../other/a.parquet"),
        ("file:///w/mine", "file:/w/mine/%2e%2e/other/a.parquet"),
        ("file:///w/mine", "file://host/w/mine/a.parquet"),
        ("file:///w/mine", "s3://lake/w/mine/a.parquet"),
    ],
)
def test_files_of_other_tables_are_refused_by_name(folder: str, location: str) -> None:
    with pytest.raises(ForeignFileError) as refused:
        TableFileIO({"s3.region": "us-east-1"}, folder).new_input(location)
    assert location in str(refused.value)
