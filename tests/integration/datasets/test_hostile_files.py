"""Data files that a job left to show somebody else's rows, to hang their reader or to swamp it, in front of real previews."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.factories import datasets as make
from tests.factories.forks import BOMB_S
from tests.factories.manifests import data_entry, write_manifest, write_manifest_list
from tests.factories.processors import watching_below
from webapp.core.errors import Unavailable
from webapp.datasets import queries
from webapp.datasets.queries.preview import PreviewRequest, read_preview

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from tests.factories.fork_server import Server
    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db,
    pytest.mark.usefixtures("readers"),
    pytest.mark.timeout(120),
]
SECRET = "canary-91c2"
GIB = 2**30


@pytest.fixture
def client_of() -> Callable[[User], Any]:
    return make.a_pyiceberg


def _table(client: Any, path: str, rows: list[dict[str, Any]]) -> Any:
    table = client.create_table(path.strip("/").replace("/", "."), pa.Table.from_pylist(rows).schema)
    table.append(pa.Table.from_pylist(rows))
    return table


@pytest.fixture
def victim(readers: Path) -> tuple[Dataset, Path, Path]:
    """A dataset of one data file, and the data file of somebody else's with the same columns."""
    user = make.a_user()
    client = make.a_pyiceberg(user)
    client.create_namespace("shop")
    client.create_namespace("bank")
    _table(client, "/bank/salaries", [{"word": SECRET}])
    _table(client, "/shop/words", [{"word": "mine"}])
    [secret] = (readers / "warehouse" / "bank").rglob("*.parquet")
    [mine] = (readers / "warehouse" / "shop").rglob("*.parquet")
    return queries.get_dataset(make.who(user), "/shop/words"), mine, secret


def test_the_rows_behind_a_link_are_not_shown(victim: tuple[Dataset, Path, Path]) -> None:
    dataset, mine, secret = victim
    assert read_preview(make.ADMIN, dataset, request=PreviewRequest()).rows == [["mine"]]
    mine.unlink()
    mine.symlink_to(secret)
    for wanted in (PreviewRequest(), PreviewRequest(q="canary"), PreviewRequest(sort="word")):
        with pytest.raises(Unavailable, match="/shop/words cannot be read") as refused:
            read_preview(make.ADMIN, dataset, request=wanted)
        assert SECRET not in refused.value.detail


def test_the_rows_of_a_file_outside_the_table_that_a_manifest_names_are_not_shown(
    victim: tuple[Dataset, Path, Path],
) -> None:
    dataset, mine, secret = victim
    [listed] = mine.parents[1].glob("metadata/snap-*.avro")
    [manifest] = mine.parents[1].glob("metadata/*-m0.avro")
    size = secret.stat().st_size
    for name in (secret.as_uri(), f"{mine.parent.as_uri()}/../../../bank/{secret.parents[1].name}/data/{secret.name}"):
        entry = data_entry(name, record_count=1, file_size_in_bytes=size)
        made = write_manifest(manifest.as_uri(), [entry], snapshot_id=1, sequence=1)
        write_manifest_list(listed.as_uri(), [made])
        with pytest.raises(Unavailable, match="cannot be read"):
            read_preview(make.ADMIN, dataset, request=PreviewRequest())


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_a_trap_in_the_place_of_a_data_file_keeps_nobody_waiting(
    victim: tuple[Dataset, Path, Path], kind: str, client: Client, admin: User
) -> None:
    dataset, mine, _ = victim
    if kind == "device" and os.geteuid():
        pytest.skip("only root makes devices")
    mine.unlink()
    {"fifo": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.mknod(path, 0o20666, os.makedev(1, 5))}[kind](
        mine
    )
    client.force_login(admin)
    page = client.get(f"/d{dataset.path}?tab=preview")
    assert page.status_code in {200, 503}
    assert "cannot be read" in page.content.decode()


def _bomb(path: Path, *, value: int, rows: int) -> None:
    """A small file that decodes to very much: one long text, and a number that says it again and again."""
    texts = pa.array(["x" * value], pa.string())
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), texts)
    with pq.ParquetWriter(
        path,
        pa.schema([pa.field("word", column.type, metadata={"PARQUET:field_id": "1"})]),
        compression="zstd",
        store_schema=False,
    ) as writer:
        writer.write_table(pa.table({"word": column}, schema=writer.schema), row_group_size=rows)


@pytest.mark.parametrize(
    "wanted", [PreviewRequest(), PreviewRequest(start=5_000), PreviewRequest(sort="word"), PreviewRequest(q="y")]
)
def test_a_page_of_a_bomb_is_refused(
    victim: tuple[Dataset, Path, Path], wanted: PreviewRequest, fork_server: Server
) -> None:
    dataset, mine, _ = victim
    _bomb(mine, value=2**20, rows=40_000)
    assert mine.stat().st_size < 4 * 2**20
    assert len(read_preview(make.ADMIN, dataset, request=PreviewRequest(limit=5)).rows) == 5  # as many as fit are shown
    with (
        watching_below(fork_server.process.pid) as taken,
        pytest.raises(Unavailable, match=r"/shop/words is not shown \((decoding|they take more)"),
    ):
        read_preview(make.ADMIN, dataset, request=wanted)
    print(f"refused after {sum(taken.values()):.2f} s of the processor")
    assert 0 < sum(taken.values()) < BOMB_S
