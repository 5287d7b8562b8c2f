"""Which process reads a stored comparison, and for how long."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType

from tests.factories import engine as tables
from tests.unit.diffs.test_diffs_rows import field
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.diffs import pool as pools
from webapp.comparisons.diffs import reader, rows
from webapp.comparisons.diffs.exports import export
from webapp.core.errors import Conflict, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from webapp.runtime.readers import Reader

pytestmark = pytest.mark.usefixtures("readers")
ROWS = 30_000


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[pools.Pool]:
    """A pool of this test alone."""
    own = pools.Pool()
    monkeypatch.setattr(reader, "pool", own)
    yield own
    for place in list(own._places):
        own._end(place)


@pytest.fixture
def make_diff(tmp_path: Path) -> Callable[..., Path]:
    def make(count: int = 3) -> Path:
        table = tables.make_table(tmp_path, Schema(field(1, "id", LongType())), f"n.t{len(list(tmp_path.iterdir()))}")
        table.append(pa.table({"id": range(count)}))
        return tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["id"])["folder"]

    return make


def find_readers(pool: pools.Pool) -> list[Any]:
    return [place.reader for place in pool._places]


def kill(process: Reader) -> None:
    process._process.close()  # the fork server does it
    while process.is_ready:
        time.sleep(0.01)


def test_pages_of_one_comparison_share_a_process_that_no_other_gets(
    pool: pools.Pool, make_diff: Callable[..., Path]
) -> None:
    first, second = make_diff(), make_diff()
    for options in ({}, {"sort": "-id"}, {"q": "id > 0"}):
        rows.read_page(first, EVERYTHING, **options)
    [before] = find_readers(pool)
    rows.read_page(second, EVERYTHING)
    assert len(find_readers(pool)) == 2
    assert find_readers(pool)[0] == before
    assert b"".join(export(first, EVERYTHING, "csv")).count(b"\r\n") == 4
    assert len(find_readers(pool)) == 2


def test_a_process_that_has_died_is_another_one_next_time(pool: pools.Pool, make_diff: Callable[..., Path]) -> None:
    folder = make_diff()
    rows.read_page(folder, EVERYTHING)
    [before] = find_readers(pool)
    kill(before)
    assert len(rows.read_page(folder, EVERYTHING, sort="-id").rows) == 3
    assert before not in find_readers(pool)


def test_a_page_that_was_read_is_asked_for_once(pool: pools.Pool, make_diff: Callable[..., Path]) -> None:
    folder, other = make_diff(), make_diff(5)
    first = rows.read_page(folder, EVERYTHING)
    [before] = find_readers(pool)
    kill(before)
    assert rows.read_page(folder, EVERYTHING).rows == first.rows
    assert find_readers(pool) == [before]
    shutil.copy(other / "rows.parquet", folder / "rows.parquet")
    assert rows.read_page(folder, EVERYTHING, limit=3).rows == first.rows
    assert before not in find_readers(pool), "another file in the same place is read anew"


def test_a_comparison_that_was_computed_again_is_not_read_by_who_saw_the_old_one(
    pool: pools.Pool, make_diff: Callable[..., Path]
) -> None:
    folder, other = make_diff(), make_diff(5)
    assert len(rows.read_page(folder, EVERYTHING).rows) == 3
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    (folder / "summary.json").touch()
    assert len(rows.read_page(folder, EVERYTHING).rows) == 5


def test_who_asks_first_may_be_waited_for_but_not_for_ever(
    pool: pools.Pool, make_diff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "WAIT_S", 0.2)
    monkeypatch.setattr(pools, "MOST", 2)
    monkeypatch.setattr(pools, "MOST_EACH", 1)
    slow, other, third = make_diff(), make_diff(), make_diff()
    shown, file = reader._locate(slow / "rows.parquet")
    question = {"ask": "numbers", "where": "true", "parameters": (), "order": "n", "first": None, **file}
    with closing(pool.walk(shown, is_download=False, **question)) as at_work:
        next(at_work)
        with pytest.raises(Unavailable, match="Many rows are being read"):
            rows.read_page(slow, EVERYTHING)
        assert len(rows.read_page(other, EVERYTHING).rows) == 3
        assert len(rows.read_page(third, EVERYTHING).rows) == 3
    assert len(rows.read_page(slow, EVERYTHING).rows) == 3


def test_a_download_whose_client_reads_too_slowly_gives_its_place_to_others(
    pool: pools.Pool, make_diff: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "WAIT_S", 0.2)
    monkeypatch.setattr(pools, "MOST_DOWNLOADS", 1)
    folder = make_diff(ROWS)
    slow = export(folder, EVERYTHING, "csv")
    next(slow)
    with pytest.raises(Unavailable, match="Many rows are being read"):
        export(folder, EVERYTHING, "csv")
    assert len(rows.read_page(folder, EVERYTHING).rows) == 100
    monkeypatch.setattr(pools, "SLOW_S", 0)
    assert b"".join(export(folder, EVERYTHING, "csv")).count(b"\r\n") == ROWS + 1
    with pytest.raises(Unavailable, match="cut off"):
        next(slow)


def test_first_rows_behind_a_link_are_not_shown(pool: pools.Pool, make_diff: Callable[..., Path]) -> None:
    mine, secret = make_diff(), make_diff()
    assert len(rows.read_page(mine / "first", EVERYTHING).rows) == 3
    shutil.rmtree(mine / "first")
    (mine / "first").symlink_to(secret / "first")
    with pytest.raises(Conflict, match="damaged"):
        rows.read_page(mine / "first", EVERYTHING)
    (mine / "first").unlink()
    shutil.copytree(secret / "first", mine / "first")
    (mine / "first" / "rows.parquet").unlink()
    (mine / "first" / "rows.parquet").symlink_to(secret / "first" / "rows.parquet")
    with pytest.raises(Conflict, match="damaged"):
        rows.read_page(mine / "first", EVERYTHING)
