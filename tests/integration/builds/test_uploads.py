"""Uploads: one transaction each, all or nothing, and a broken file names its line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.factories.builds import Stack
from tests.factories.forks import BOMB_S
from tests.factories.processors import read_with_ended

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
TRIES = 3
"""On a very busy machine the time that its size allows a job may be over before it was anybody's turn."""


def test_upload_replaces_and_appends(stack: Stack) -> None:
    first = stack.upload("/shop/up/plain", "a,b\n1,x\n")
    assert first.status_code == 201, first.text
    assert first.headers["Location"] == f"/api/v1/builds/{first.json()['id']}"
    assert stack.upload("/shop/up/plain", "a,b\n2,y\n", mode="append").status_code == 201
    assert sorted(row["a"] for row in stack.rows("/shop/up/plain")) == [1, 2]
    assert stack.upload("/shop/up/plain", '{"a": 9, "c": 1.5}\n', name="rows.jsonl").status_code == 201
    assert stack.rows("/shop/up/plain") == [{"a": 9, "c": 1.5}]


def test_an_upload_answers_with_columns_and_warnings(stack: Stack) -> None:
    content = "n,at,word\n1,2024-01-01T10:00Z,NA\nNA,2024-01-01T10:00+02:00,\n"
    first = stack.upload("/shop/up/told", content).json()
    warning = "times are stored in UTC. 1 value had another offset or none, first on line 3"
    assert first["columns"] == [
        {"name": "n", "type": "long", "nulls": 1, "warnings": []},
        {"name": "at", "type": "timestamptz", "nulls": 0, "warnings": [warning]},
        {"name": "word", "type": "string", "nulls": 1, "warnings": []},
    ]
    (job,) = stack.call("GET", f"/builds/{first['id']}")["jobs"]
    (output,) = job["outputs"]
    assert output["columns"] == first["columns"]
    assert "columns" not in output["summary"]
    assert warning in stack.fragment(f"/builds/{first['id']}")
    assert f"warning: column 'at': {warning}" in stack.log(job["id"])
    refused = stack.upload("/shop/up/told", "n,at\n1.5,2024-01-01T10:00Z\n", mode="append").json()
    assert (refused["line"], refused["code"]) == (2, "schema")
    assert "column 'n': '1.5' is not a long, the type of the table's column" in refused["detail"]


def test_upload_on_a_branch_leaves_master_alone(stack: Stack) -> None:
    stack.upload("/shop/up/branched", "a\n1\n")
    assert stack.upload("/shop/up/branched", "a\n2\n", branch="trial").status_code == 201
    assert [row["a"] for row in stack.rows("/shop/up/branched")] == [1]
    assert [row["a"] for row in stack.rows("/shop/up/branched", branch="trial")] == [2]


def test_broken_row_is_a_422_that_names_its_line_and_nothing_is_visible(stack: Stack) -> None:
    stack.upload("/shop/up/broken", "a,b\n1,x\n")
    answer = stack.upload("/shop/up/broken", 'a,b\n1,x\n2,"y\n3,z,too,many\n4,"w"\n')
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert "line" in problem["detail"]
    assert problem["line"]
    assert stack.rows("/shop/up/broken") == [{"a": 1, "b": "x"}]
    assert stack.open_transactions() == []
    assert not list((stack.home / "uploads").iterdir())


@pytest.mark.parametrize(
    ("content", "name", "query", "code"),
    [
        ("", "empty.csv", {}, "empty_file"),
        ("a\n1\n", "what.xlsx", {}, "file_format"),
        ("a\n1\n", "file.csv", {"mode": "merge"}, "invalid_input"),
        ("PAR1 this is not parquet", "file.parquet", {}, None),
    ],
)
def test_unusable_file_is_a_422(stack: Stack, content: str, name: str, query: dict[str, str], code: str | None) -> None:
    answer = stack.upload("/shop/up/unusable", content, name=name, **query)
    assert answer.status_code == 422, answer.text
    assert code in (None, answer.json()["code"])
    assert answer.json()["detail"]
    assert stack.open_transactions() == []


def test_a_program_says_how_a_file_is_read(stack: Stack) -> None:
    path = "/shop/up/typed"
    rows = "007;1\n008;2\n"
    options = {"delimiter": "semicolon", "header": "false", "types": '{"column_1": "string", "column_2": "double"}'}
    answer = stack.upload(path, rows, **options)
    assert answer.status_code == 201, answer.text
    assert stack.rows(path) == [{"column_1": "007", "column_2": 1.0}, {"column_1": "008", "column_2": 2.0}]
    lines = '{"code": 7, "n": 1}\n{"code": 8, "n": 2.5}\n'
    misfit = stack.upload(path, lines, name="rows.jsonl", types='{"n": "long"}')
    assert (misfit.status_code, misfit.json()["code"]) == (422, "type")
    assert misfit.json()["errors"]["types"] == [misfit.json()["detail"]]
    assert misfit.json()["line"] == 2
    assert "line 2: column 'n': '2.5' is not a long. Choose another type for the column" in misfit.json()["detail"]
    answer = stack.upload(path, lines, name="rows.jsonl", types='{"code": "string"}')
    assert answer.status_code == 201, answer.text
    assert stack.rows(path)[0] == {"code": "7", "n": 1.0}


@pytest.mark.parametrize(
    ("name", "query", "field"),
    [
        ("a.csv", {"delimiter": "x"}, "delimiter"),
        ("a.csv", {"header": "perhaps"}, "header"),
        ("a.csv", {"types": "long"}, "types"),
        ("a.csv", {"types": '{"a": "number"}'}, "types"),
        ("a.csv", {"types": '{"b": "long"}'}, "types"),
        ("a.jsonl", {"delimiter": ";"}, "delimiter"),
        ("a.parquet", {"header": "0"}, "header"),
    ],
)
def test_an_option_that_cannot_be_is_named(stack: Stack, name: str, query: dict[str, str], field: str) -> None:
    answer = stack.upload("/shop/up/options", "a\n1\n", name=name, **query)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()["errors"]) == [field]
    assert stack.open_transactions() == []


def test_missing_file_field_is_a_422(stack: Stack) -> None:
    dataset = stack.call("GET", "/datasets?path=/shop/raw")["results"][0]
    answer = stack.request("POST", f"/datasets/{dataset['id']}/upload", data={})
    assert (answer.status_code, answer.json()["errors"]) == (422, {"file": ["Required."]})


def test_a_branch_that_is_sent_in_the_form_is_refused_by_name_and_master_stays(stack: Stack) -> None:
    assert stack.upload("/shop/up/formed", "a\n1\n").status_code == 201
    dataset = stack.call("GET", "/datasets?path=/shop/up/formed")["results"][0]["id"]
    answer = stack.request(
        "POST",
        f"/datasets/{dataset}/upload",
        data={"branch": "trial", "mode": "append"},
        files={"file": ("two.csv", "a\n2\n")},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_member")
    assert answer.json()["errors"].keys() == {"branch", "mode"}
    assert "behind the '?'" in answer.json()["detail"]
    assert [row["a"] for row in stack.rows("/shop/up/formed")] == [1]


def test_upload_into_an_open_transaction_becomes_visible_at_its_commit(stack: Stack) -> None:
    stack.upload("/shop/up/held", "a\n1\n")
    dataset = stack.call("GET", "/datasets?path=/shop/up/held")["results"][0]
    held = stack.call(
        "POST", f"/datasets/{dataset['id']}/transactions", json={"branch": "master", "type": "SNAPSHOT"}, expect=201
    )
    assert stack.upload("/shop/up/held", "a\n7\n", transaction=held["id"]).status_code == 201
    assert [row["a"] for row in stack.rows("/shop/up/held")] == [1]
    refused = stack.upload("/shop/up/held", "a\n8\n")
    assert refused.status_code == 409, refused.text
    stack.call("POST", f"/datasets/{dataset['id']}/transactions/{held['id']}/commit")
    assert [row["a"] for row in stack.rows("/shop/up/held")] == [7]


def test_bombs_are_refused_by_name_and_everything_else_works(stack: Stack, tmp_path: Path) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"a": column}), tmp_path / "bomb.parquet", compression="zstd", store_schema=False)
    bomb = (tmp_path / "bomb.parquet").read_bytes()
    assert len(bomb) < 4 * 2**20
    wide = ",".join(f"c{n}" for n in range(100_000)) + "\n"
    for content, name, codes in (
        (bomb, "bomb.parquet", {"memory", "decodes_to_too_much"}),
        (wide, "wide.csv", {"too_many_columns"}),
    ):
        for _ in range(TRIES):
            before_s = read_with_ended(stack.parts["fork"].pid)
            answer = stack.upload("/shop/up/bombs", content, name=name)
            taken_s = read_with_ended(stack.parts["fork"].pid) - before_s
            assert answer.status_code == 422, answer.text
            code = answer.json()["code"]
            print(f"{name} refused after {taken_s:.2f} s of the processor: {code}")
            assert 0 < taken_s < BOMB_S
            if code != "timeout":
                break
        assert code in codes, answer.text
    assert stack.upload("/shop/up/bombs", "a\n1\n").status_code == 201
    assert stack.rows("/shop/up/bombs") == [{"a": 1}]
