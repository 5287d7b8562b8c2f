"""Running transforms against tables in memory."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.protocol import JobResult
from tests.factories.jobs import LocalJob

pytestmark = pytest.mark.slow
ONE = {"source": "/x/source"}
OUT = {"out": "/x/out"}
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"], "value": [1.5, 2.5, None]})


@pytest.fixture
def job(tmp_path: Path) -> LocalJob:
    job = LocalJob(tmp_path)
    job.write("/x/source", ROWS)
    return job


def declare(body: str, checks: str = "()", profile: str = "transform.using", more: str = "") -> str:
    return f"""
{more}
@{profile}(source=TableInput("/x/source"), out=TableOutput("/x/out", checks={checks}))
def compute(ctx, source, out):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        ("out.write_table(source.arrow())", [1, 2, 3]),
        ("out.write_polars(source.polars())", [1, 2, 3]),
        ("out.write_polars(source.polars().lazy())", [1, 2, 3]),
        ("out.write_pandas(source.pandas())", [1, 2, 3]),
        ("out.write_table(source.batches())", [1, 2, 3]),
        ("out.write_table(source.arrow(columns=['id'], filter='id > 1'))", [2, 3]),
        ("out.write_table(source.arrow(columns=['value', 'id'], filter=\"name = 'a'\"))", [1]),
        ("out.write_table(source.arrow().slice(0, 0))", []),
        (
            "out.write_table(source.arrow()); out.set_mode('append'); out.write_table(source.arrow())",
            [1, 2, 3, 1, 2, 3],
        ),
        ("out.write_table(source.arrow()); out.write_table(source.arrow().slice(1))", [2, 3]),
    ],
)
def test_reading_and_writing(job: LocalJob, body: str, ids: list[int]) -> None:
    result = job.run(declare(body), inputs=ONE, outputs=OUT)
    assert result.error is None
    assert sorted(job.read("/x/out")["id"].to_pylist()) == sorted(ids)
    assert result.outputs["/x/out"].rows == len(ids)
    snapshot = job.catalog.load_table("x.out").current_snapshot()
    assert snapshot is not None
    assert result.outputs["/x/out"].snapshot_id == snapshot.snapshot_id


def test_columns_come_in_the_order_asked_for(job: LocalJob) -> None:
    job.run(declare("out.write_table(source.arrow(columns=['value', 'id']))"), inputs=ONE, outputs=OUT)
    assert job.read("/x/out").column_names == ["value", "id"]


def test_each_write_is_one_snapshot(job: LocalJob) -> None:
    job.write("/x/out", ROWS)
    job.run(declare("out.write_table(source.arrow())"), inputs=ONE, outputs=OUT)
    metadata = job.catalog.load_table("x.out").metadata
    assert [snapshot.summary.operation.value for snapshot in metadata.snapshots if snapshot.summary] == [
        "append",
        "overwrite",
    ]


def test_what_a_transform_may_ask(job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
    body = "print(ctx.branch, ctx.is_incremental, source.branch, source.transaction, source.schema.names, out.path)"
    result = job.run(declare(f"{body}; out.write_table(source.arrow())"), inputs=ONE, outputs=OUT)
    assert result.status == "ok"
    log = capfd.readouterr().out
    assert "feature False master a61b08ffffff ['id', 'name', 'value'] /x/out" in log
    assert "input /x/source at a61b08 (master), 3 rows" in log
    assert "wrote 3 rows to /x/out on the staging branch in 1 file" in log


@pytest.mark.parametrize(
    ("body", "message", "line"),
    [
        ("raise ValueError('no such day')", "ValueError: no such day", 9),
        ("1 / 0", "ZeroDivisionError: division by zero", 9),
        ("import sys; sys.exit(4)", "SystemExit: 4", 9),
        ("source.arrow(columns=['nope'])", "/x/source has no column 'nope'; it has id, name, value", 9),
        ("out.write_table([1])", "write_table takes an Arrow table or reader, not list", 9),
        ("out.write_polars(5)", "write_polars takes a polars frame, not int", 9),
        ("out.set_mode('merge')", "'replace' or 'append', not 'merge'", 9),
        ("source.arrow(mode='all')", "mode is 'current' or 'added', not 'all'", 9),
        ("ctx.spark", "this transform has no Spark", 9),
        ("source.dataframe()", "this transform has no Spark", 9),
        ("import pyarrow as pa; out.write_table(pa.table({'a': pa.nulls(2)}))", "column 'a' has no type", 9),
        ("import pyarrow as pa; out.write_table(pa.table({'a': [1], 'A': [2]}))", "differ only in case", 9),
        ("import pyarrow as pa; out.write_table(pa.table({}))", "there are no columns", 9),
        ("import pyarrow as pa; out.write_table(pa.table({'a': [{'': 1}]}))", "a field of column 'a' has no name", 9),
        (
            "import pyarrow as pa; out.write_table(pa.table({'a': [[{'b': 1, 'B': 2}]]}))",
            "fields 'b' and 'B' of column 'a.element' differ only in case",
            9,
        ),
        (
            "import pyarrow as pa; out.write_table(pa.table({'a': pa.array([1], pa.duration('s'))}))",
            "column 'a' has type duration[s], which a table cannot hold",
            9,
        ),
        ("yield 1", "may neither be async nor yield", 0),
    ],
)
def test_failures_name_file_and_line(job: LocalJob, body: str, message: str, line: int) -> None:
    result = job.run(declare(body), inputs=ONE, outputs=OUT)
    assert result.status == "failed"
    assert result.error is not None
    assert message in result.error.message
    assert result.error.line == line
    assert str(job.root) not in result.error.traceback
    if line:
        assert result.error.file == "pipelines/module.py"
        assert 'File "pipelines/module.py", line 9' in result.error.traceback


def test_nothing_written_is_said(job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
    result = job.run(declare("pass"), inputs=ONE, outputs=OUT)
    assert result.outputs["/x/out"].mode == "none"
    assert result.outputs["/x/out"].snapshot_id is None
    assert "the transform wrote nothing to /x/out" in capfd.readouterr().out


def test_warnings_are_placed_in_the_log(job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
    body = "import logging; logging.warning('3 origins'); logging.info('fine'); out.write_table(source.arrow())"
    job.run(declare(body), inputs=ONE, outputs=OUT)
    log = capfd.readouterr().out
    assert "pipelines/module.py:9 warning: 3 origins" in log
    assert "pipelines/module.py:9 fine" in log


CHECKS = [
    ("E.primary_key('id')", True, "3 distinct keys"),
    ("E.primary_key('name')", False, "1 row with NULL in name"),
    ("E.unique('name')", True, "2 distinct keys"),
    ("E.col('id').gt(1)", False, "1 row of 3, first id = 1, name = a, value = 1.5"),
    ("E.col('id').gte(1)", True, "3 rows"),
    ("E.col('id').lt(3)", False, "1 row of 3"),
    ("E.col('id').lte(3)", True, "3 rows"),
    ("E.col('id').equals(1)", False, "2 rows of 3"),
    ("E.col('id').not_equals(9)", True, "3 rows"),
    ("E.in_range('value', 1.5, 2.5)", True, "3 rows"),
    ("E.in_range('value', 2, 3)", False, "1 row of 3"),
    ("E.non_null('id', 'value')", False, "1 row of 3, first id = 3"),
    ("E.col('name').non_null()", False, "1 row of 3"),
    ("E.in_set('name', ['a', 'c'])", True, "3 rows"),
    ("E.col('name').is_in('a')", False, "1 row of 3"),
    ("E.regex('name', '^[a-b]$')", False, "1 row of 3"),
    ("E.col('name').rlike('a|c')", True, "3 rows"),
    ("E.row_count(min=3, max=3)", True, "3 rows"),
    ("E.row_count(min=4)", False, "3 rows"),
    ("E.count().gt(3)", False, "3 rows"),
    ("E.count().lt(4)", True, "3 rows"),
    ("E.column_type('id', 'long')", True, "id is long"),
    ("E.col('value').has_type('float')", False, "value is double"),
    ("E.any(E.col('name').non_null(), E.col('value').non_null())", True, "3 rows"),
    ("E.all(E.col('name').non_null(), E.col('value').non_null())", False, "2 rows of 3"),
    ("E.negate(E.col('id').gt(5))", True, "3 rows"),
    ("E.any(E.primary_key('name'), E.row_count(min=1))", True, "3 rows"),
    ("E.all(E.primary_key('name'), E.row_count(min=9))", False, "1 row with NULL in name; 3 rows"),
    ("E.negate(E.primary_key('name'))", True, "1 row with NULL in name"),
    ("E.col('nope').gt(1)", False, "there is no column 'nope'"),
    ("E.col('name').equals(\"it's\")", False, "2 rows of 3"),
]


@pytest.mark.parametrize(("expression", "passed", "message"), CHECKS)
def test_expectations(job: LocalJob, expression: str, passed: bool, message: str) -> None:
    checks = f"Check({expression}, 'it holds')"
    result = job.run(declare("out.write_table(source.arrow())", checks), inputs=ONE, outputs=OUT)
    (check,) = result.checks
    assert (check.passed, check.dataset, check.name) == (passed, "/x/out", "it holds")
    assert check.message.startswith(message)
    assert result.status == ("ok" if passed else "failed")
    if not passed:
        assert result.error is not None
        assert result.error.message.startswith('expectation "it holds" of /x/out failed: ')


def test_duplicates_are_counted_and_shown(job: LocalJob) -> None:
    body = "out.write_table(source.arrow()); out.set_mode('append'); out.write_table(source.arrow(filter='id < 3'))"
    result = job.run(declare(body, "Check(E.primary_key('id'), 'one row')"), inputs=ONE, outputs=OUT)
    assert result.checks[0].message == "2 keys occur more than once, first id = 1"


def test_a_broken_expectation_does_not_say_hidden_values(job: LocalJob) -> None:
    body = "out.write_table(source.arrow())"
    check = "Check(E.all(E.col('id').gt(1), E.col('value').gt(100)), 'large')"
    more = {"masked": {"/x/out": ("name", "value")}}
    result = job.run(declare(body, check), inputs=ONE, outputs=OUT, more=more)
    assert result.checks[0].message.endswith("first id = 1, name = hidden, value = hidden")
    check = "Check(E.unique('name'), 'one name')"
    body = "rows = source.arrow(); out.write_table(rows.set_column(1, 'name', [['a'] * len(rows)]))"
    result = job.run(declare(body, check), inputs=ONE, outputs=OUT, more=more)
    assert result.checks[0].message == "1 key occurs more than once, first name = hidden"


def test_a_warning_does_not_fail(job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
    checks = "[Check(E.row_count(min=9), 'many', on_error='WARN'), Check(E.row_count(min=1), 'some')]"
    result = job.run(declare("out.write_table(source.arrow())", checks), inputs=ONE, outputs=OUT)
    assert result.status == "ok"
    assert [check.passed for check in result.checks] == [False, True]
    log = capfd.readouterr().out
    assert 'Warning: expectation "many" failed: 3 rows' in log
    assert 'expectation "some" holds: 3 rows' in log


def test_all_checks_are_told_when_one_fails(job: LocalJob) -> None:
    checks = (
        "[Check(E.row_count(min=9), 'many'), Check(E.primary_key('name'), 'key'), Check(E.row_count(min=1), 'some')]"
    )
    result = job.run(declare("out.write_table(source.arrow())", checks), inputs=ONE, outputs=OUT)
    assert [check.passed for check in result.checks] == [False, False, True]
    assert result.error is not None
    assert "(and 1 more)" in result.error.message


def test_plan_and_code_must_agree(job: LocalJob) -> None:
    result = job.run(declare("pass"), inputs=ONE, outputs={"other": "/x/out"})
    assert result.error is not None
    assert (
        "output 'other' of pipelines.module:compute is /x/out in the plan, but nothing in the code"
        in result.error.message
    )
    result = job.run(declare("pass"), inputs=ONE, outputs={"out": "/x/absent"})
    assert result.error is not None
    assert "no transform writes /x/absent in pipelines.module in this commit" in result.error.message


class TestIncremental:
    BODY = "print('incremental', ctx.is_incremental); out.write_table(source.arrow())"

    def run(self, job: LocalJob, since: int | None, more: str = "@incremental()", body: str = BODY) -> JobResult:
        return job.run(
            declare(body, more=more), inputs=ONE, outputs=OUT, since=None if since is None else {"/x/source": since}
        )

    def start(self, job: LocalJob) -> int:
        snapshot = job.catalog.load_table("x.source").current_snapshot()
        assert snapshot is not None
        self.run(job, None)
        return snapshot.snapshot_id

    def test_it_reads_and_adds_what_was_added(self, job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
        since = self.start(job)
        job.write("/x/source", ROWS.slice(1), is_append=True)
        self.run(job, since)
        assert "incremental True" in capfd.readouterr().out
        assert sorted(job.read("/x/out")["id"].to_pylist()) == [1, 2, 2, 3, 3]

    @pytest.mark.parametrize(
        ("read", "write"),
        [
            ("arrow", "write_table"),
            ("batches", "write_table"),
            ("polars", "write_polars"),
            ("pandas", "write_pandas"),
        ],
    )
    @pytest.mark.parametrize("question", ["", "['value', 'id'], 'id > 0'"])
    def test_no_new_rows_are_an_empty_answer(self, job: LocalJob, read: str, write: str, question: str) -> None:
        since = self.start(job)
        all_rows = f"source.{read}({question}{question and ', '}mode='current')"
        body = f"""
    kind = lambda rows: rows.dtypes.index.tolist() if hasattr(rows, 'iloc') else rows.schema
    rows, all_rows = source.{read}({question}), {all_rows}
    assert kind(rows) == kind(all_rows), (kind(rows), kind(all_rows))
    out.{write}(rows)
""".strip()
        result = self.run(job, since, body=body)
        assert result.error is None
        assert (result.outputs["/x/out"].added_rows, job.read("/x/out").num_rows) == (0, 3)

    def test_no_new_rows_are_an_empty_changelog(self, job: LocalJob) -> None:
        since = self.start(job)
        body = """
    log = source.changelog_arrow(['id'])
    assert (log.num_rows, log.schema) == (0, source.changelog_arrow(['id'], start='earliest').schema)
    out.apply_changelog(log, ['id'])
""".strip()
        result = self.run(job, since, body=body)
        assert result.error is None
        assert job.read("/x/out").num_rows == 3

    def test_a_rewritten_input_is_read_in_full(self, job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
        since = self.start(job)
        job.write("/x/source", ROWS.slice(2))
        self.run(job, since)
        assert "the last build: /x/source did not only grow" in capfd.readouterr().out
        assert job.read("/x/out")["id"].to_pylist() == [3]

    def test_or_refused(self, job: LocalJob) -> None:
        since = self.start(job)
        job.write("/x/source", ROWS)
        result = self.run(job, since, more="@incremental(require_incremental=True)")
        assert "this build cannot be incremental" in str(result)

    @pytest.mark.parametrize("is_first", [True, False])
    def test_only_a_first_build_may_be_full_where_incremental_is_required(
        self, job: LocalJob, capfd: pytest.CaptureFixture[str], *, is_first: bool
    ) -> None:
        result = job.run(
            declare(self.BODY, more="@incremental(require_incremental=True)"),
            inputs=ONE,
            outputs=OUT,
            more={"is_incremental": True, "is_first": is_first, "why_full": "so it is"},
        )
        if is_first:
            assert "full build: so it is" in capfd.readouterr().out
            assert job.read("/x/out").num_rows == 3
        else:
            assert "this build cannot be incremental: so it is" in str(result)

    def test_all_rows_can_be_asked_for(self, job: LocalJob) -> None:
        since = self.start(job)
        body = "out.set_mode('replace'); out.write_table(source.arrow(mode='current'))"
        self.run(job, since, body=body)
        assert job.read("/x/out").num_rows == 3

    def test_without_the_word_everything_is_full(self, job: LocalJob) -> None:
        since = self.start(job)
        self.run(job, since, more="")
        assert job.read("/x/out").num_rows == 3


def test_types_survive(job: LocalJob) -> None:
    body = """
    import datetime
    import polars as pl
    data = pl.DataFrame(
        {
            "flag": [True, None],
            "small": pl.Series([1, None], dtype=pl.Int8),
            "unsigned": pl.Series([1, 2**32 - 1], dtype=pl.UInt32),
            "single": pl.Series([0.5, None], dtype=pl.Float32),
            "day": [datetime.date(2013, 1, 1), None],
            "at": pl.Series([datetime.datetime(2013, 1, 1, 5), None], dtype=pl.Datetime("ns")),
            "zoned": pl.Series([datetime.datetime(2013, 1, 1, 5), None]).dt.replace_time_zone("America/New_York"),
            "kind": pl.Series(["x", "y"], dtype=pl.Categorical),
            "many": [[1, 2], None],
            "pair": [{"a": 1, "b": "x"}, None],
            "money": pl.Series(["1.50", None]).cast(pl.Decimal(10, 2)),
            "raw": [b"\\x00", None],
        }
    )
    out.write_polars(data)
"""
    result = job.run(declare(body.strip()), inputs=ONE, outputs=OUT)
    assert result.error is None
    types = {field.name: str(field.field_type) for field in job.catalog.load_table("x.out").schema().fields}
    assert list(types.values())[:8] == ["boolean", "int", "long", "float", "date", "timestamp", "timestamptz", "string"]
    assert types["money"] == "decimal(10, 2)"
    first = job.read("/x/out").to_pylist()[0]
    assert first["zoned"] == dt.datetime(2013, 1, 1, 10, tzinfo=dt.UTC)
    assert (first["many"], first["pair"], first["raw"]) == ([1, 2], {"a": 1, "b": "x"}, b"\x00")


READS = [
    "out.write_table(source.arrow())",
    "out.write_table(source.batches())",
    "out.write_polars(source.polars())",
    "out.write_table(source.changelog_arrow(['id']).select(['id']))",
    "source.schema",
]


@pytest.mark.parametrize("body", READS)
def test_expired_pin_fails_by_name(job: LocalJob, body: str) -> None:
    job.expire("/x/source")
    result = job.run(declare(body), inputs=ONE, outputs=OUT)
    assert result.error is not None
    assert (result.status, result.outputs) == ("failed", {})
    assert "/x/source: transaction a61b08ffffff on branch master is gone" in result.error.message


def test_expired_pin_fails_an_incremental_build(job: LocalJob) -> None:
    since = job.write("/x/source", ROWS, is_append=True)
    job.write("/x/source", ROWS, is_append=True)
    job.expire("/x/source")
    source = declare("out.write_table(source.arrow())", more="@incremental()")
    result = job.run(source, inputs=ONE, outputs=OUT, since={"/x/source": since})
    assert result.error is not None
    assert "/x/source: transaction a61b08ffffff on branch master is gone" in result.error.message


def test_expired_start_is_read_in_full(job: LocalJob, capfd: pytest.CaptureFixture[str]) -> None:
    since = job.write("/x/source", ROWS, is_append=True)
    job.write("/x/source", ROWS, is_append=True)
    job.expire("/x/source", since)
    source = declare("out.write_table(source.arrow())", more="@incremental()")
    result = job.run(source, inputs=ONE, outputs=OUT, since={"/x/source": since})
    assert result.outputs["/x/out"].rows == 9
    said = "inputs are read whole, only changelogs go on from the last build: /x/source did not only grow since"
    assert said in capfd.readouterr().out


def test_expired_start_of_a_changelog_fails_by_name(job: LocalJob) -> None:
    since = job.write("/x/source", ROWS, is_append=True)
    job.write("/x/source", ROWS, is_append=True)
    job.expire("/x/source", since)
    source = declare("out.apply_changelog(source.changelog_arrow(['id']), ['id'])", more="@incremental()")
    result = job.run(source, inputs=ONE, outputs=OUT, since={"/x/source": since})
    assert result.error is not None
    assert f"snapshot {since} has expired" in result.error.message


def test_never_written_input_is_empty(job: LocalJob) -> None:
    body = "assert source.arrow().num_rows == 0; out.write_table(pa.table({'id': [1]}))"
    source = declare(body, more="import pyarrow as pa").replace("/x/source", "/x/empty")
    result = job.run(source, inputs={"source": "/x/empty"}, outputs=OUT)
    assert result.error is None
    assert result.outputs["/x/out"].rows == 1
