"""Tables that lie where a client has said, as PyIceberg and Spark make, write and drop them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.catalog.conftest import Sql

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def test_pyiceberg_says_where_a_table_lies(on: Callable[..., Any], namespace: str, lake: Path) -> None:
    catalog, place = on(), lake / namespace
    made = catalog.create_table(f"{namespace}.t", ROWS.schema, location=f"file:{place}/t")
    assert made.location() == f"file:{place}/t"
    made.append(ROWS)
    on("b").load_table(f"{namespace}.t").append(ROWS)
    assert on("b").load_table(f"{namespace}.t").scan().to_arrow().num_rows == 4
    assert catalog.load_table(f"{namespace}.t").scan().to_arrow() == ROWS
    assert all(
        str(task.file.file_path).startswith(f"file:{place}/t/data/") for task in made.refresh().scan().plan_files()
    )
    with catalog.create_table_transaction(f"{namespace}.u", ROWS.schema, location=f"file://{place}/u") as staged:
        staged.append(ROWS)
    assert catalog.load_table(f"{namespace}.u").scan().to_arrow() == ROWS
    catalog.purge_table(f"{namespace}.t")
    assert [path.name for path in place.iterdir()] == ["u"]


def test_pyiceberg_takes_no_place_of_others(on: Callable[..., Any], namespace: str, lake: Path) -> None:
    catalog, place = on(), f"file:{lake}/{namespace}"
    catalog.create_table(f"{namespace}.t", ROWS.schema, location=f"{place}/t")
    taken = (f"{place}/t", f"file://{lake}/{namespace}/t", place, f"{place}/t/data")
    hostile = (
        f"{place}/../../x",
        f"{place}/%2e%2e/x",
        f"{place}//x",
        f"{place}/x?y",
        f"file:{lake}",
        f"file:{lake}2/x",
    )
    for location in (*taken, *hostile, f"s3://bucket{lake}/x"):
        with pytest.raises(BadRequestError):
            catalog.create_table(f"{namespace}.x", ROWS.schema, location=location)
    catalog.create_table(f"{namespace}.t2", ROWS.schema, location=f"{place}/t2")


def test_spark_says_where_a_table_lies(sql: Sql, refused: Callable[..., None], namespace: str, lake: Path) -> None:
    sql(f"create table main_.{namespace}.t (id bigint) using iceberg location '{lake}/{namespace}/t'")
    sql(f"insert into main_.{namespace}.t values (1), (2)")
    sql(f"insert into a.{namespace}.t values (3)")
    assert sql(f"select id from main_.{namespace}.t") == [(1,), (2,)]
    assert sql(f"select id from a.{namespace}.t") == [(1,), (2,), (3,)]
    sql(
        f"create table main_.{namespace}.u using iceberg location 'file:{lake}/{namespace}/u' as select * from a.{namespace}.t"
    )
    assert sql(f"select count(*) from main_.{namespace}.u") == [(3,)]
    assert sorted(path.name for path in (lake / namespace).iterdir()) == ["t", "u"]
    refused(f"create table main_.{namespace}.v (id bigint) location 'file:///{lake}/{namespace}/u'", "cannot be taken")
