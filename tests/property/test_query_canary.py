"""No text of SQL shows a value of a hidden column: not in rows, not in an error, and not in a file that it leaves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.engine.errors import DiffError
from jobs.engine.query import run as engine_run
from jobs.engine.query.run import run_query
from jobs.engine.query.statement import check_functions, check_names, list_tables
from jobs.protocol import QueryRequest, QueryTable
from tests.factories import engine
from tests.factories.queries import a_reader

CANARY = "zq-salary-of-mira-4711"
TRACES = [CANARY, CANARY[::-1], CANARY.encode().hex(), "enEtc2FsYXJ5LW9mLW1pcmEt"]
"""The canary as it stands, reversed, as hexadecimal digits and as base64."""
DECOY = "a-name-that-everybody-sees"
ATTACKS = (
    'WITH "{path}" AS (SELECT * FROM "{path}") SELECT * FROM "{path}"',
    'SELECT * FROM (WITH "{path}" AS (SELECT 1) SELECT 1), "{path}"',
    'WITH x AS (WITH "{path}" AS (SELECT 1) SELECT 1) SELECT * FROM x, "{PATH}"',
    'WITH "{path}" AS (SELECT 1) SELECT * FROM "file:{path}"',
    "SELECT * FROM '{path}'",
    "SELECT * FROM read_parquet('{path}')",
    "SELECT * FROM people, LATERAL (SELECT * FROM '{path}') l",
    "PIVOT '{path}' ON id IN (1, 2) USING max(name)",
    "UNPIVOT (SELECT * FROM '{path}') ON name INTO NAME n VALUE v",
    "SELECT CAST(name AS INTEGER) FROM people, '{path}' f WHERE f.id = people.id",
    "SELECT CAST(f.name AS INTEGER) FROM '{path}' f",
    "SELECT error(f.name) FROM '{path}' f",
    "SELECT current_setting('allowed_paths')",
    "SELECT sql FROM duckdb_views()",
    "SELECT * FROM duckdb_views",
    "SELECT * FROM information_schema.views",
    "SELECT * FROM pg_catalog.pg_views",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM query('SELECT name FROM ''{path}''')",
    "SELECT * FROM query_table(['{path}'])",
    "SELECT json_serialize_plan('SELECT min(name) FROM ''{path}''')",
    "SELECT * FROM parquet_metadata('{path}')",
    "SELECT * FROM read_blob('{path}')",
    "SELECT stats(name) FROM people",
    'SELECT * FROM "rows of table 0"',
    'WITH "duc\u212adb_views" AS (SELECT 1) SELECT * FROM duckdb_views',
    "SELECT x1 FROM people",
    "SELECT * FROM arrow_scan(1, 2, 3)",
    "SET allowed_paths = ['{path}']",
    "PRAGMA show_tables",
    "COPY (SELECT * FROM '{path}') TO '{out}/copy.parquet'",
    "ATTACH '{path}' AS stolen",
    "CREATE MACRO m() AS TABLE SELECT * FROM '{path}'",
    "DESCRIBE '{path}'",
    "SUMMARIZE '{path}'",
    "SELECT getvariable('name')",
    "SELECT * FROM people WHERE name > 'a' OR name IS NOT NULL",
    "SELECT min(name), max(name), list(name), histogram(name) FROM people GROUP BY GROUPING SETS ((name), ())",
)
FILES = ("{path}", "{PATH}", "file:{path}", "file://{path}", "{folder}/*.parquet", "{folder}/../data/*.parquet")
FUNCTIONS = (
    *("read_parquet", "parquet_scan", "read_blob", "read_text", "read_csv", "read_json", "glob", "sniff_csv"),
    *("parquet_metadata", "parquet_kv_metadata", "parquet_bloom_probe", "query", "query_table", "read_duckdb"),
)
VIEWS = (
    *("duckdb_views()", "duckdb_settings()", "duckdb_columns", "information_schema.columns", "sqlite_master"),
    *(
        "pg_catalog.pg_views",
        "pragma_show('people')",
        "duckdb_external_file_cache()",
        "duckdb_logs()",
        '"rows of table 0"',
    ),
)
COLUMNS = (
    *("*", "name", '"NAME"', "s", "COLUMNS(*)", "CAST(s.name AS INTEGER)", "error(name)", "to_json(s)", "hash(name)"),
    *("x1", "rowid", "upper(name)", "reverse(name)", "hex(name)", "base64(name::BLOB)", "s.name.error()", "content"),
    *("stats(name)", "string_agg(name, ',')", "list_transform([name], lambda x: error(x))", "name::INTEGER"),
)


@dataclass(frozen=True)
class Vault:
    """A table whose column `name` is hidden, its reader, and the folder of results."""

    request: QueryRequest
    reader: Any
    path: str

    def fill(self, text: str) -> str:
        """Write this table's paths into a text."""
        folder = str(Path(self.path).parent)
        return (
            text.replace("{path}", self.path)
            .replace("{PATH}", self.path.upper())
            .replace("{folder}", folder)
            .replace("{out}", self.request.folder)
        )

    def run(self, sql: str) -> str:
        """Run a text; return all that somebody could see of it."""
        folder = Path(self.request.folder)
        for left in folder.glob("*.parquet"):
            left.unlink()
        request = QueryRequest(
            sql=sql, folder=str(folder), result_path=self.request.result_path, time_limit_s=3.0, has_base=True
        )
        try:
            said = str(run_query(request, self.reader))
        except DiffError as error:
            said = repr([error, error.__cause__, error.__context__])
        rows = [str(pq.read_table(file).to_pydict()) for file in folder.rglob("*.parquet") if file.is_file()]
        return "\n".join([said, *rows])


@pytest.fixture(scope="module")
def vault() -> Iterator[Vault]:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home, "out")
        folder.mkdir()
        schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("shown", pa.string())])
        table = engine.make_table(Path(home, "w"), schema)
        names = [CANARY, CANARY, f"{CANARY}-2"]
        table.append(pa.table({"id": [1, 2, 3], "name": names, "shown": [DECOY, "b", "c"]}, schema=schema))
        side = engine.side(table, engine.snapshot_of(table))
        pinned = QueryTable(("people",), side, masked=("name",))
        [file] = engine.data_files(table)
        request = QueryRequest(sql="", folder=str(folder), result_path=str(folder / "result.json"))
        with a_reader(folder, [pinned], [pinned]) as reader:
            yield Vault(request, reader, file.file_path.removeprefix("file://"))


def check(vault: Vault, sql: str) -> None:
    """Run a text, with the checks of texts and without: these are not what keeps the value."""
    told = vault.run(sql)
    with pytest.MonkeyPatch.context() as patch:
        for name in (list_tables, check_functions, check_names):
            patch.setattr(engine_run, name.__name__, lambda *_: [])
        told += vault.run(sql)
    assert "process that reads the tables has ended" not in told, sql
    lower = told.casefold()
    assert [trace for trace in TRACES if trace.casefold() in lower] == [], sql


def test_the_hidden_value_is_there_and_other_columns_are_shown(vault: Vault) -> None:
    """Or nothing of it would be there to be found."""
    assert CANARY in str(pq.read_table(vault.path).to_pydict())
    assert DECOY in vault.run("SELECT * FROM people")
    assert "'c0': [None, None, None]" in vault.run("SELECT name FROM people")


@pytest.mark.parametrize("attack", ATTACKS)
def test_known_attacks_show_nothing(vault: Vault, attack: str) -> None:
    check(vault, vault.fill(attack))


def _quoted(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([f'"{text}"', f"'{text}'", f'main."{text}"', f'"{text}" AS s'])


_files = st.sampled_from(FILES).flatmap(_quoted)
_calls = st.builds(
    lambda name, file, prefix: f"{prefix}{name}('{file}')",
    st.sampled_from(FUNCTIONS),
    st.sampled_from([*FILES, "SELECT * FROM ''{path}''", "people"]),
    st.sampled_from(["", "main.", "system.main."]),
)
_sources = st.one_of(_files, _calls, st.sampled_from([*VIEWS, "people", "people AS s", '"PEOPLE" AS s']))


def _nest(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    file = st.sampled_from([*FILES, "people", "s", "x"])
    return st.one_of(
        st.builds('WITH "{0}" AS ({1}) SELECT * FROM "{0}" AS s'.format, file, inner),
        st.builds('WITH RECURSIVE "{0}" AS ({1} UNION SELECT * FROM "{0}") SELECT * FROM "{0}"'.format, file, inner),
        st.builds('WITH a AS (WITH "{0}" AS (SELECT 1) SELECT 1), b AS ({1}) SELECT * FROM b, "{0}" AS s'.format, file, inner),
        st.builds("SELECT {0} FROM ({1}) AS s".format, st.sampled_from(COLUMNS), inner),
        st.builds("SELECT (SELECT {0} FROM ({1}) AS s LIMIT 1) FROM people".format, st.sampled_from(COLUMNS), inner),
        st.builds("SELECT * FROM people, LATERAL ({0}) AS s".format, inner),
        st.builds("SELECT * FROM people WHERE EXISTS ({0})".format, inner),
        st.builds("PIVOT ({0}) ON id IN (1, 2) USING max(name)".format, inner),
        st.builds("SELECT * FROM ({0}) UNPIVOT (v FOR n IN (name, shown))".format, inner),
        st.builds("SUMMARIZE {0}".format, inner),
        st.builds("{0} UNION ALL BY NAME SELECT * FROM people".format, inner),
        st.builds("{1} ORDER BY {0}".format, st.sampled_from(COLUMNS), inner),
    )  # fmt: skip


_texts = st.recursive(st.builds("SELECT {0} FROM {1}".format, st.sampled_from(COLUMNS), _sources), _nest, max_leaves=3)


@pytest.mark.parametrize("examples", [25, pytest.param(3_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
def test_no_text_shows_a_hidden_value(vault: Vault, examples: int) -> None:
    @settings(max_examples=examples)
    @given(text=_texts)
    def law(text: str) -> None:
        check(vault, vault.fill(text))

    law()
