"""Uploads and builds write the columns that a table has, and keep what the table says of them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.factories.builds import HEAD, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
COLUMNS = Schema(
    NestedField(1, "id", LongType(), required=True, doc="who"),
    NestedField(2, "v", StringType(), doc="what"),
    identifier_field_ids=[1],
)


def parquet(**columns: list[Any]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_append_in_another_spelling_adds_no_column(stack: Stack) -> None:
    path = "/shop/spelled/appended"
    assert stack.upload(path, "id,größe\n1,a\n").status_code == 201
    files: list[tuple[str, str | bytes]] = [
        ("file.csv", "\ufeff ID , GRÖẞE\n2,b\n"),
        ("rows.jsonl", '{"Id": 3, "gro\u0308ße": "c"}\n'),
        ("file.parquet", parquet(ID=[4], größe=["d"])),
    ]
    for name, content in files:
        answer = stack.upload(path, content, name=name, mode="append")
        assert answer.status_code == 201, answer.text
    rows = sorted(stack.rows(path), key=lambda row: int(row["id"]))
    assert rows == [{"id": number, "größe": letter} for number, letter in enumerate("abcd", 1)]
    body = "assert i0.arrow().column_names == ['id', 'größe']\nout.write_table(i0.arrow())"
    source = make_transform("spelled", inputs=[path], output="/shop/spelled/read", body=body)
    stack.commit({"pipelines/spelled.py": HEAD + source})
    assert stack.build("/shop/spelled/read")["state"] == "COMPLETED"


@pytest.mark.parametrize("mode", ["snapshot", "append"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("file.csv", "id,größe,gro\u0308ße\n1,a,b\n"),
        ("rows.jsonl", '{"id": 1}\n{"ID": 2}\n'),
        ("rows.jsonl", '{"id": 1, "s": {"a": 1, "A": 2}}\n'),
        ("file.parquet", parquet(id=[1], ID=[2])),
    ],
)
def test_two_spellings_in_one_file_are_refused(stack: Stack, name: str, content: str | bytes, mode: str) -> None:
    path = "/shop/spelled/refused"
    answer = stack.upload(path, content, name=name, mode=mode)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] in {"bad_header", "schema", "broken_file"}


def test_replacing_keeps_what_the_table_says_of_its_columns(stack: Stack) -> None:
    path = "/shop/kept/table"
    stack.upload("/shop/kept/folder", "a\n1\n")
    stack.connect().create_table(
        "shop.kept.table",
        COLUMNS,
        partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part")),
        sort_order=SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=1),
        properties={"comment": "counted by hand"},
    )
    before = stack.load(path).metadata
    body = "out.write_table(pa.table({'id': [5], 'v': ['c'], 'new': [1.5]}))"
    stack.commit({"pipelines/kept.py": HEAD + make_transform("kept", output=path, body=body)})

    def check(branch: str, columns: list[str]) -> None:
        after = stack.load(path, branch=branch)
        assert [field.name for field in after.schema().fields] == columns
        assert after.schema().identifier_field_ids == [1]
        assert after.schema().fields[:2] == before.schema().fields
        assert (after.spec(), after.sort_order()) == (before.spec(), before.sort_order())
        assert after.properties["comment"] == "counted by hand"

    for branch, mode in (("kept-side", "snapshot"), ("master", "snapshot"), ("master", "append")):
        answer = stack.upload(path, f"id,v\n{len(mode)},b\n", branch=branch, mode=mode)
        assert answer.status_code == 201, answer.text
        check(branch, ["id", "v"])
    refused = stack.upload(path, "id,v\n,b\n7,c\n")
    assert (refused.status_code, refused.json()["code"]) == (422, "schema")
    assert "column 'id' is required in the table" in refused.json()["detail"]
    assert stack.build(path)["state"] == "COMPLETED"
    check("master", ["id", "v", "new"])
    check("kept-side", ["id", "v"])
    assert stack.rows(path) == [{"id": 5, "v": "c", "new": 1.5}]
