"""Columns whose names are spelled otherwise: they are the table's own, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from jobs.engine.read.column_names import AmbiguousName, find_twin, fold, match_names
from jobs.engine.write.schemas import type_nulls
from tests.factories.forks import in_child
from tests.factories.jobs import LocalJob

pytestmark = pytest.mark.slow
OUT = {"out": "/x/out"}
ROWS = pa.table({"id": [1], "größe": ["x"]})


@pytest.fixture
def job(tmp_path: Path) -> LocalJob:
    job = LocalJob(tmp_path)
    job.write("/x/out", ROWS)
    return job


def declare(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f'import pyarrow as pa\n@transform.using(out=TableOutput("/x/out"))\ndef compute(out):\n{lines}\n'


def ids_of(job: LocalJob) -> dict[str, int]:
    return {field.name: field.field_id for field in job.catalog.load_table("x.out").schema().fields}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("id", "ID"),
        ("GRÖSSE".replace("SS", "ẞ"), "größe"),
        ("gro\u0308ße", "größe"),
        ("ΟΔΟΣ", "οδος"),
        ("K\u212a", "kk"),
        ("İd", "id"),
        ("ıd", "ID"),
    ],
)
def test_fold_is_equal_for_spellings(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(("one", "other"), [("strasse", "straße"), ("id", "id_"), ("e", "é"), ("a b", "a  b")])
def test_fold_keeps_other_names_apart(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_match_names_takes_the_only_spelling() -> None:
    assert match_names(["ID", "new"], ["id", "v"]) == {"ID": "id", "new": "new"}
    assert match_names(["ID"], ["id", "ID"]) == {"ID": "ID"}
    with pytest.raises(AmbiguousName, match="'Id' could be 'id' and 'ID'"):
        match_names(["Id"], ["id", "ID"])
    assert find_twin(["a", "b", "A"]) == ("a", "A")
    assert find_twin(["a", "a"]) == ("a", "a")
    assert find_twin(["a", "b"]) is None


@pytest.mark.parametrize(
    "write",
    [
        "out.write_table(pa.table({'ID': [2], 'gro\\u0308ße': ['y']}))",
        "import pandas as pd\nout.write_pandas(pd.DataFrame({'ID': [2], 'GRÖẞE': ['y']}))",
        "import polars as pl\nout.write_polars(pl.DataFrame({'Id': [2], 'Größe': ['y']}))",
    ],
)
def test_append_writes_the_columns_of_the_table(job: LocalJob, write: str) -> None:
    before = ids_of(job)
    result = job.run(declare(f"out.set_mode('append')\n{write}"), inputs={}, outputs=OUT)
    assert result.error is None
    assert ids_of(job) == before
    assert sorted(job.read("/x/out").to_pylist(), key=str) == [
        {"id": 1, "größe": "x"},
        {"id": 2, "größe": "y"},
    ]


def test_replace_renames_a_column_and_keeps_its_id(job: LocalJob) -> None:
    before = ids_of(job)
    result = job.run(declare("out.write_table(pa.table({'ID': [2], 'GRÖẞE': ['y']}))"), inputs={}, outputs=OUT)
    assert result.error is None
    assert ids_of(job) == {"ID": before["id"], "GRÖẞE": before["größe"]}
    assert job.read("/x/out").to_pylist() == [{"ID": 2, "GRÖẞE": "y"}]


def test_replace_gives_each_id_to_one_column(job: LocalJob) -> None:
    """A client renamed `id`, so the history has both names for one id."""

    def rename() -> Any:
        table = job.catalog.load_table("x.out")
        table.update_schema().rename_column("id", "key").commit()
        return job.catalog.tables

    job.catalog.tables = in_child(rename)
    result = job.run(declare("out.write_table(pa.table({'id': [3], 'key': [2]}))"), inputs={}, outputs=OUT)
    assert result.error is None
    assert job.read("/x/out").to_pylist() == [{"id": 3, "key": 2}]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("pa.table({'gro\\u0308ße': ['a'], 'größe': ['b']})", "differ only in how their letters are written"),
        ("pa.table({'s': [{'a': 1, 'A': 2}]})", "fields 'a' and 'A' of column 's' differ only in case"),
    ],
)
def test_two_spellings_in_one_write_are_refused(job: LocalJob, write: str, message: str) -> None:
    result = job.run(declare(f"out.write_table({write})"), inputs={}, outputs=OUT)
    assert result.error is not None
    assert message in result.error.message
    assert "rename one" in result.error.message


def test_append_refuses_fields_of_another_spelling(job: LocalJob) -> None:
    job.write("/x/out", pa.table({"s": [{"a": 1}]}))
    body = "out.set_mode('append')\nout.write_table(pa.table({'S': [{'A': 2}]}))"
    result = job.run(declare(body), inputs={}, outputs=OUT)
    assert result.error is not None
    assert "column 's' is struct<" in result.error.message


def test_changelog_names_the_spelling_of_the_destination(job: LocalJob) -> None:
    body = (
        "changes = pa.table({'ID': [2], 'größe': ['y'], '_change_type': ['INSERT']})\n"
        "out.apply_changelog(changes, keys=['ID'])"
    )
    since = {"/x/source": job.write("/x/source", ROWS)}
    source = declare(body).replace("out=TableOutput", 'source=TableInput("/x/source"), out=TableOutput')
    source = source.replace("compute(out)", "compute(source, out)").replace("@transform", "@incremental()\n@transform")
    result = job.run(source, inputs={"source": "/x/source"}, outputs=OUT, since=since)
    assert result.error is not None
    assert "rename the column of the changelog to 'id'" in result.error.message


def test_nulls_take_the_type_of_the_column_in_another_case() -> None:
    table = Schema(NestedField(1, "v", LongType()))
    assert type_nulls(pa.schema([("V", pa.null())]), table).field("V").type == pa.int64()
