"""An `s3:` warehouse: clients have no keys of their own and get no farther than the catalog says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.types import StringType

from tests.contract.catalog.conftest import Server, start_server
from tests.factories.guide import Reader, read_chapter
from tests.factories.object_store import BUCKET, ObjectStore

pytestmark = [pytest.mark.contract, pytest.mark.timeout(240)]
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})


@pytest.fixture(scope="module")
def lake(object_store: ObjectStore, fork_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose warehouse is in the store."""
    home = tmp_path_factory.mktemp("lake")
    fork_server.serve(home)
    running = start_server(home, **object_store.environment)
    yield running
    running.process.terminate()
    running.process.wait(20)


def test_pyiceberg_works_without_keys_of_its_own(lake: Server, object_store: ObjectStore) -> None:
    catalog = lake.pyiceberg()
    catalog.create_namespace("crud")
    table = catalog.create_table("crud.t", ROWS.schema)
    assert table.location().startswith(f"{object_store.warehouse}/crud/t-")
    table.append(ROWS)
    table.append(ROWS)
    branch = lake.pyiceberg("feature/x").load_table("crud.t")
    with branch.update_schema() as update:
        update.add_column("more", StringType())
    branch.refresh().append(pa.table({"id": pa.array([3], pa.int64()), "name": ["c"], "more": ["d"]}))
    assert branch.refresh().scan().to_arrow().num_rows == 5
    fresh = catalog.load_table("crud.t")
    assert fresh.scan().to_arrow().column_names == ["id", "name"]
    assert fresh.scan().to_arrow().num_rows == 4
    assert fresh.metadata_location in {f"s3://{BUCKET}/{key}" for key in object_store.list()}
    planned = requests.post(
        f"{lake.uri}/v1/namespaces/crud/tables/t/plan",
        json={"select": ["id"]},
        headers={"Authorization": f"Bearer {lake.token}"},
        timeout=30,
    ).json()
    assert planned["status"] == "completed"
    assert {task["data-file"]["file-path"] for task in planned["file-scan-tasks"]} == {
        task.file.file_path for task in fresh.scan().plan_files()
    }
    catalog.drop_table("crud.t", purge_requested=True)
    assert object_store.list("warehouse/crud/") == []


def test_lines_of_the_guide_give_keys(lake: Server) -> None:
    catalog = lake.pyiceberg()
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", ROWS.schema)

    languages = Reader(lake.uri.removesuffix("/iceberg"), TRIBUTARY_TOKEN=lake.token).read(
        read_chapter("operation", "Tables in an object store")
    )

    assert languages == ["sh"]
