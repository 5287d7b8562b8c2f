"""Changelogs: the documented tables, the histories of one key, and applying."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.changelog import apply_changelog, read_changelog
from jobs.engine.write.writer import write_table
from tests.factories.forks import in_child
from tests.factories.guide import list_blocks, read_chapter
from tests.factories.jobs import LocalJob
from tests.fakes.jobs_catalog import MemoryCatalog

pytestmark = pytest.mark.slow
SCHEMA = pa.schema([("id", pa.string()), ("value", pa.string())])
Rows = list[tuple[str | None, str | None]]
DOCUMENTED: list[Rows] = [
    [("id1", "val1")],
    [("id1", "val2")],
    [("id1", "val3"), ("id2", "val2")],
    [("id1", "val3"), ("id1", "val3")],
]


def table_of(rows: Rows) -> pa.Table:
    return pa.table({"id": [row[0] for row in rows], "value": [row[1] for row in rows]}, schema=SCHEMA)


def with_history(folder: Path, versions: list[Rows], work: Callable[[Any, list[int]], Any]) -> Any:
    """Write the versions one after the other, then do something with the table and its snapshots."""

    def run() -> Any:
        table = MemoryCatalog(folder).load_table("x.t")
        snapshots = [
            write_table(table, SCHEMA, table_of(rows).to_batches(), is_append=False).snapshot_id for rows in versions
        ]
        try:
            return work(table, snapshots)
        except Exception as error:  # noqa: BLE001 - compared by the test
            return type(error).__name__, str(error)

    return in_child(run)


def changes(folder: Path, versions: list[Rows], first: int | None, last: int, **more: Any) -> Any:
    def work(table: Any, snapshots: list[int]) -> Any:
        start = None if first is None else snapshots[first]
        found = read_changelog(table, start=start, end=snapshots[last], **more)
        return [(*row.values(),) for row in found.to_pylist()]

    return with_history(folder, versions, work)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 1, [("id1", "val2", "UPDATE_AFTER", 1), ("id1", "val1", "UPDATE_BEFORE", 1)]),
        (
            1,
            2,
            [("id1", "val3", "UPDATE_AFTER", 2), ("id1", "val2", "UPDATE_BEFORE", 2), ("id2", "val2", "INSERT", 2)],
        ),
        (
            0,
            2,
            [("id1", "val3", "UPDATE_AFTER", 2), ("id1", "val1", "UPDATE_BEFORE", 1), ("id2", "val2", "INSERT", 2)],
        ),
        (None, 0, [("id1", "val1", "INSERT", 0)]),
        (2, 2, []),
    ],
)
def test_documented_changes_by_identifier(tmp_path: Path, first: int | None, last: int, expected: Any) -> None:
    assert changes(tmp_path, DOCUMENTED, first, last, keys=["id"]) == expected


@pytest.mark.parametrize("first", [0, 1, 2, None])
def test_documented_failure_by_identifier(tmp_path: Path, first: int | None) -> None:
    said = changes(tmp_path, DOCUMENTED, first, 3, keys=["id"])
    assert said == ("ValueError", "Duplicate rows found for identifier columns ['id'] in changelog view.")


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (0, 1, [("id1", "val1", "DELETE", 1), ("id1", "val2", "INSERT", 1)]),
        (1, 2, [("id1", "val2", "DELETE", 2), ("id1", "val3", "INSERT", 2), ("id2", "val2", "INSERT", 2)]),
        (0, 2, [("id1", "val1", "DELETE", 1), ("id1", "val3", "INSERT", 2), ("id2", "val2", "INSERT", 2)]),
        (0, 3, [("id1", "val1", "DELETE", 1), ("id1", "val3", "INSERT", 2), ("id1", "val3", "INSERT", 3)]),
    ],
)
def test_documented_net_changes(tmp_path: Path, first: int, last: int, expected: Any) -> None:
    assert sorted(changes(tmp_path, DOCUMENTED, first, last, keys=None), key=lambda row: (row[3], row)) == expected


A, B, C = [("k", "a")], [("k", "b")], [("k", "c")]


@pytest.mark.parametrize(
    ("versions", "net", "first", "latest"),
    [
        ([[], A], ["INSERT a 1"], ["INSERT a 1"], ["INSERT a 1"]),
        ([[], A, B], ["INSERT b 2"], ["INSERT b 2"], ["UPDATE_AFTER b 2", "UPDATE_BEFORE a 2"]),
        ([[], A, []], [], [], ["DELETE a 2"]),
        ([A, B], ["DELETE a 1", "INSERT b 1"], ["UPDATE_AFTER b 1", "UPDATE_BEFORE a 1"], None),
        (
            [A, B, C],
            ["DELETE a 1", "INSERT c 2"],
            ["UPDATE_AFTER c 2", "UPDATE_BEFORE a 1"],
            ["UPDATE_AFTER c 2", "UPDATE_BEFORE b 2"],
        ),
        ([A, B, A], [], [], ["UPDATE_AFTER a 2", "UPDATE_BEFORE b 2"]),
        ([A, B, A, C], ["DELETE a 3", "INSERT c 3"], ["UPDATE_AFTER c 3", "UPDATE_BEFORE a 3"], None),
        ([A, B, []], ["DELETE a 1"], ["DELETE a 1"], ["DELETE b 2"]),
        ([A, [], A], [], [], ["INSERT a 2"]),
        ([A, [], B], ["DELETE a 1", "INSERT b 2"], ["UPDATE_AFTER b 2", "UPDATE_BEFORE a 1"], ["INSERT b 2"]),
        ([A, A], [], [], []),
        ([A, A + A], ["INSERT a 1"], "ValueError", "ValueError"),
        ([A + A, A], ["DELETE a 1"], "ValueError", "ValueError"),
        # which of several rows of a key are left, its last change alone does not tell
        ([A, A + B, A], [], [], "ValueError"),
        ([A, A + B, B], ["DELETE a 2", "INSERT b 1"], ["UPDATE_AFTER b 1", "UPDATE_BEFORE a 2"], "ValueError"),
        ([[], A + A, []], [], [], "ValueError"),
        ([A, [("j", "a")]], ["DELETE a 1", "INSERT a 1"], ["INSERT a 1", "DELETE a 1"], None),
    ],
)
def test_histories_of_a_key(tmp_path: Path, versions: list[Rows], net: Any, first: Any, latest: Any) -> None:
    def told(folder: str, **more: Any) -> Any:
        found = changes(tmp_path / folder, versions, 0, len(versions) - 1, **more)
        return found[0] if isinstance(found, tuple) else [f"{row[2]} {row[1]} {row[3]}" for row in found]

    assert sorted(told("a", keys=None)) == sorted(net)
    assert told("b", keys=["id"]) == first
    if latest is not None:
        assert told("c", keys=["id"], images="latest") == latest


def test_null_is_a_key(tmp_path: Path) -> None:
    found = changes(tmp_path, [[(None, "a")], [(None, "b")]], 0, 1, keys=["id"])
    assert [row[2] for row in found] == ["UPDATE_AFTER", "UPDATE_BEFORE"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"keys": []}, "Name at least one identifier column"),
        ({"keys": ["nope"]}, "Identifier column 'nope' does not exist; there are id, value."),
        ({"keys": ["id"], "images": "all"}, "images is 'first' or 'latest', not 'all'"),
        ({"keys": "id"}, """Identifier columns are a list of names, such as ["id"], not 'id'."""),
        ({"keys": ["id"], "start": 5}, "snapshot 5 has expired"),
        ({"keys": None, "end": 5}, "snapshot 5 has expired"),
    ],
)
def test_bad_questions_are_answered(tmp_path: Path, more: Any, message: str) -> None:
    def work(table: Any, _snapshots: list[int]) -> Any:
        return read_changelog(table, **{"start": None, "end": None, **more})

    said = with_history(tmp_path, DOCUMENTED, work)
    assert said[0] == "ValueError"
    assert message in said[1]


def test_ends_may_be_written_as_text(tmp_path: Path) -> None:
    job = LocalJob(tmp_path)
    first, last = (str(job.write("/x/in", table_of(rows))) for rows in DOCUMENTED[:2])

    def told(start: str) -> Any:
        source = f"""
@transform.using(given=TableInput("/x/in"), out=TableOutput("/x/out"))
def compute(given, out):
    out.write_table(given.changelog_arrow(["id"], start={start!r}, end={last!r}).drop_columns("_change_ordinal"))
"""
        result = job.run(source, inputs={"given": "/x/in"}, outputs={"out": "/x/out"})
        return result.error.message if result.error else job.read("/x/out")["_change_type"].to_pylist()

    assert told(first) == ["UPDATE_AFTER", "UPDATE_BEFORE"]
    assert told("earliest") == ["INSERT"]
    assert "start is a snapshot id or \"earliest\", not 'yesterday'." in told("yesterday")


@pytest.mark.parametrize(
    "frame", ["pl.from_arrow(log)", "pl.from_arrow(log).lazy()", "log.to_pandas()", "log.to_reader()"]
)
def test_changes_may_be_a_frame_of_any_library(tmp_path: Path, frame: str) -> None:
    source = f"""
import polars as pl

@transform.using(given=TableInput("/x/in"), out=TableOutput("/x/out"))
def compute(given, out):
    log = given.changelog_arrow(["id"])
    out.apply_changelog({frame}, ["id"])
"""
    job = LocalJob(tmp_path)
    job.write("/x/in", table_of(DOCUMENTED[2]))
    result = job.run(source, inputs={"given": "/x/in"}, outputs={"out": "/x/out"})
    assert result.status == "ok", result.error
    assert sorted(job.read("/x/out")["id"].to_pylist()) == ["id1", "id2"]
    told = job.run(source.replace(frame, "log.to_pylist()"), inputs={"given": "/x/in"}, outputs={"out": "/x/out"})
    assert "apply_changelog takes a Spark, polars or pandas frame or Arrow data, not list" in told.error.message


def test_the_end_must_come_from_the_start(tmp_path: Path) -> None:
    said = changes(tmp_path, DOCUMENTED, 2, 1, keys=None)
    assert "is not an ancestor of snapshot" in said[1]


def test_an_added_column_changes_no_row(tmp_path: Path) -> None:
    def work(table: Any, snapshots: list[int]) -> Any:
        more = pa.table({"id": ["id9"], "value": ["x"], "more": [1]})
        last = write_table(table, more.schema, more.to_batches(), is_append=True).snapshot_id
        return read_changelog(table, keys=["id"], start=snapshots[-1], end=last).to_pylist()

    assert with_history(tmp_path, DOCUMENTED[:1], work) == [
        {"id": "id9", "value": "x", "more": 1, "_change_type": "INSERT", "_change_ordinal": 1}
    ]


def log_of(*changes: tuple[str | None, str | None, str]) -> pa.Table:
    rows = table_of([(key, value) for key, value, _ in changes])
    return rows.append_column("_change_type", pa.array([kind for *_, kind in changes], pa.string()))


def applied(folder: Path, rows: Rows, log: pa.Table, keys: list[str], *, from_empty: bool = False) -> Any:
    def work(table: Any, snapshots: list[int]) -> Any:
        written = apply_changelog(table, log, keys, from_empty=from_empty)
        assert len(table.metadata.snapshots) == len(snapshots) + (written is not None)
        return sorted((*row.values(),) for row in table.scan().to_arrow().to_pylist())

    return with_history(folder, [rows], work)


def test_changes_are_applied_by_key(tmp_path: Path) -> None:
    log = log_of(
        ("a", "old", "UPDATE_BEFORE"),
        ("a", "new", "UPDATE_AFTER"),
        ("b", "gone", "DELETE"),
        ("c", "come", "INSERT"),
        ("absent", "x", "DELETE"),
        ("known", "again", "INSERT"),
    )
    rows: Rows = [("a", "old"), ("b", "gone"), ("known", "before"), ("still", "here")]
    assert applied(tmp_path, rows, log, ["id"]) == [("a", "new"), ("c", "come"), ("known", "again"), ("still", "here")]
    assert applied(tmp_path / "full", rows, log, ["id"], from_empty=True) == [
        ("a", "new"),
        ("c", "come"),
        ("known", "again"),
    ]


def test_columns_that_the_changelog_lacks_keep_their_values(tmp_path: Path) -> None:
    log = log_of(("a", "new", "UPDATE_AFTER"), ("b", "gone", "DELETE"), ("c", "come", "INSERT"))

    def work(table: Any, _snapshots: list[int]) -> Any:
        wide = MemoryCatalog(tmp_path / "wide").load_table("x.w")
        rows = table.scan().to_arrow().append_column("note", pa.array(["first", "second", None]))
        write_table(wide, rows.schema, rows.to_batches(), is_append=False)
        apply_changelog(wide, log, ["id"], from_empty=False)
        return sorted((*row.values(),) for row in wide.scan().to_arrow().to_pylist())

    found = with_history(tmp_path, [[("a", "old"), ("b", "gone"), ("still", "here")]], work)
    assert found == [("a", "new", "first"), ("c", "come", None), ("still", "here", None)]


@pytest.mark.parametrize("name", ["r", "p", "old", "log", "row", "present"])
def test_a_struct_that_holds_a_field_of_the_keys_name_is_not_taken_for_the_key(tmp_path: Path, name: str) -> None:
    """Names of columns are free, whatever the statements call what they read."""

    def row(key: str, text: str) -> dict[str, Any]:
        return {"id": key, name: {"id": "another", "text": text}}

    schema = pa.schema({"id": pa.string(), name: pa.struct({"id": pa.string(), "text": pa.string()})})
    log = pa.Table.from_pylist(
        [{**row("a", "new"), "_change_type": "UPDATE_AFTER"}],
        schema=schema.append(pa.field("_change_type", pa.string())),
    )

    def work(_table: Any, _snapshots: list[int]) -> Any:
        table = MemoryCatalog(tmp_path / "structs").load_table("x.s")
        rows = pa.Table.from_pylist([row("a", "old"), row("b", "still")], schema=schema)
        write_table(table, rows.schema, rows.to_batches(), is_append=False)
        apply_changelog(table, log, ["id"], from_empty=False)
        return sorted(table.scan().to_arrow().to_pylist(), key=lambda stored: stored["id"])

    assert with_history(tmp_path, [[("a", "x")]], work) == [row("a", "new"), row("b", "still")]


def test_nothing_to_apply_makes_no_snapshot(tmp_path: Path) -> None:
    assert applied(tmp_path, [("a", "x")], log_of(), ["id"]) == [("a", "x")]


@pytest.mark.parametrize(
    ("rows", "log", "keys", "message"),
    [
        (
            [],
            log_of(("a", "x", "INSERT"), ("a", "y", "INSERT")),
            ["id"],
            "apply_changelog failed: duplicate keys detected in changelog dataframe for identifier columns ['id']",
        ),
        (
            [("a", "x"), ("a", "y")],
            log_of(("a", "z", "INSERT")),
            ["id"],
            "apply_changelog failed: multiple rows in destination table match key ['id']",
        ),
        ([], log_of(("a", "x", "UPDATE_BEFORE")), ["id"], "has an UPDATE_BEFORE and no UPDATE_AFTER"),
        ([], log_of(("a", "x", "MERGE")), ["id"], "unknown change type 'MERGE'"),
        ([], log_of(("a", "x", "INSERT")), ["nope"], "Identifier column 'nope' does not exist"),
        ([], table_of([("a", "x")]), ["id"], "there is no column _change_type"),
        (
            [("a", "x")],
            log_of(("a", "x", "INSERT")).rename_columns({"value": "Value"}),
            ["id"],
            "columns 'Value' and, in the destination, 'value' differ only in case",
        ),
    ],
)
def test_what_cannot_be_applied(tmp_path: Path, rows: Rows, log: pa.Table, keys: list[str], message: str) -> None:
    said = applied(tmp_path, rows, log, keys)
    assert said[0] == "Exception"
    assert message in said[1]


def test_other_keys_than_those_of_the_changelog_are_refused(tmp_path: Path) -> None:
    """Applied by another column, the row of the old value would stay: its UPDATE_BEFORE may be filtered out by then."""

    def work(table: Any, snapshots: list[int]) -> Any:
        log = read_changelog(table, keys=["id"], start=snapshots[0], end=snapshots[1])
        latest = log.filter(pc.field("_change_type") != "UPDATE_BEFORE").append_column("note", pa.array(["n"]))
        other = MemoryCatalog(tmp_path / "other").load_table("x.o")
        write_table(other, SCHEMA, table_of([("a", "old")]).to_batches(), is_append=False)
        for keys in (["value"], ["id", "value"]):
            with pytest.raises(Exception, match=r"apply_changelog failed: the changelog was made with .*\['id'\], not"):
                apply_changelog(other, latest, keys, from_empty=False)
        assert other.scan().to_arrow().to_pylist() == [{"id": "a", "value": "old"}]
        apply_changelog(other, latest, ["id"], from_empty=False)
        renamed = MemoryCatalog(tmp_path / "renamed").load_table("x.r")
        apply_changelog(renamed, latest.rename_columns({"id": "key"}), ["key"], from_empty=True)
        by_hand = pa.Table.from_pylist(latest.to_pylist())
        apply_changelog(MemoryCatalog(tmp_path / "hand").load_table("x.h"), by_hand, ["value"], from_empty=True)
        return [table.scan().to_arrow().to_pylist() for table in (other, renamed)]

    assert with_history(tmp_path, [[("a", "old")], [("a", "new")]], work) == [
        [{"id": "a", "value": "new", "note": "n"}],
        [{"key": "a", "value": "new", "note": "n"}],
    ]


FRAMES = {
    "polars": "pl.from_arrow(log).filter(pl.col('_change_type') != 'UPDATE_BEFORE')",
    "columns of polars": "pl.from_arrow(log).filter(pl.col('_change_type') != 'UPDATE_BEFORE').drop('_change_ordinal')",
    "pandas": "log.to_pandas().query('_change_type != \"UPDATE_BEFORE\"').merge(pd.DataFrame({'id': ['a']}))",
}


BY_HAND = "pl.DataFrame({'id': ['b'], 'value': ['old'], '_change_type': ['INSERT']})"
"""Without numbers and updates: applied by value it takes the place of row `a`, by id it comes beside it."""


class AppliedFrames:
    """A job that reads the change of row `a`, from `old` to `new`, by its id, and applies a frame made of it."""

    def __init__(self, folder: Path) -> None:
        self._job = LocalJob(folder)
        self._first = self._job.write("/x/in", table_of([("a", "old")]))
        self._job.write("/x/in", table_of([("a", "new")]))

    def told(self, frame: str, keys: list[str], *, read: str = "") -> Any:
        """The rows afterwards, or the refusal; `read` is what the job reads besides."""
        self._job.write("/x/out", table_of([("a", "old")]))
        source = f"""
import pandas as pd
import polars as pl

@transform.using(given=TableInput("/x/in"), out=TableOutput("/x/out"))
def compute(given, out):
    log = given.changelog_arrow(["id"], start="{self._first}")
    {read}
    out.apply_changelog({frame}, {keys!r})
"""
        more = {"inputs": {"given": "/x/in"}, "outputs": {"out": "/x/out"}}
        ran = self._job.run(source, since={"/x/in": self._first}, **more)
        return ran.error.message if ran.error else self._job.read("/x/out").to_pylist()


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_frames_without_metadata_take_the_keys_of_what_the_job_read(tmp_path: Path, frame: str) -> None:
    applied = AppliedFrames(tmp_path)
    refusal = applied.told(frame, ["value"])
    assert "the changelog that this job has read was made with identifier columns ['id'], not ['value']" in refusal
    assert applied.told(frame, ["id"]) == [{"id": "a", "value": "new"}]


def test_a_frame_of_new_rows_alone_never_takes_the_place_of_others(tmp_path: Path) -> None:
    """Neither numbers nor updates tell it from changes made by hand, so it may have come from the changelog."""
    applied = AppliedFrames(tmp_path)
    assert "made with identifier columns ['id'], not ['value']" in applied.told(BY_HAND, ["value"])
    rows = applied.told(BY_HAND, ["id"])
    assert sorted(rows, key=str) == [{"id": "a", "value": "old"}, {"id": "b", "value": "old"}]


@pytest.mark.parametrize(
    ("frame", "keys", "read"),
    [
        # made by hand, of net changes, which have no keys
        (BY_HAND, ["value"], "log = given.changelog_arrow()"),
        # of other columns than the keys of what was read
        (f"{FRAMES['polars']}.drop('id')", ["value"], ""),
        # it may as well come from the net changes, or from the changelog by value
        (FRAMES["polars"], ["value"], "given.changelog_arrow()"),
        (FRAMES["polars"], ["value"], "given.changelog_arrow(['value'])"),
    ],
)
def test_changes_that_may_be_of_any_key_are_applied(tmp_path: Path, frame: str, keys: list[str], read: str) -> None:
    assert isinstance(AppliedFrames(tmp_path).told(frame, keys, read=read), list)


def test_applying_follows_the_source(tmp_path: Path) -> None:
    """What a reader at one version gets by applying is the other version, whichever changelog it takes."""
    versions: list[Rows] = [
        [("a", "1"), ("b", "1"), (None, "n")],
        [("a", "2"), ("c", "1"), (None, "n")],
        [("a", "3"), ("c", "1"), (None, "m"), ("d", "4")],
    ]

    def work(table: Any, snapshots: list[int]) -> Any:
        found = []
        for images in ("first", "latest"):
            log = read_changelog(table, keys=["id"], start=snapshots[0], end=snapshots[2], images=images)
            other = MemoryCatalog(tmp_path / images).load_table("x.o")
            write_table(other, SCHEMA, table_of(versions[0]).to_batches(), is_append=False)
            for _ in range(2):
                apply_changelog(other, log, ["id"], from_empty=False)
            found.append(sorted(map(str, other.scan().to_arrow().to_pylist())))
        return found

    expected = sorted(map(str, table_of(versions[2]).to_pylist()))
    assert with_history(tmp_path, versions, work) == [expected, expected]


def test_guide_shows_a_transform_that_follows_its_input(tmp_path: Path) -> None:
    ((_, source),) = list_blocks(read_chapter("transforms", "Changelogs"))
    job = LocalJob(tmp_path)
    names = {"flights": "/nyc/clean/flights"}, {"current": "/nyc/flights/current"}

    def build(rows: list[tuple[str, int]], since: int | None) -> int:
        same = {"flight": [1] * len(rows), "time_hour": ["2013-01-01T05"] * len(rows)}
        data = pa.table({"carrier": [row[0] for row in rows], **same, "delay": [row[1] for row in rows]})
        snapshot = job.write("/nyc/clean/flights", data)
        pins = None if since is None else {"/nyc/clean/flights": since}
        result = job.run(source, inputs=names[0], outputs=names[1], since=pins)
        assert result.status == "ok", result.error
        found = job.read("/nyc/flights/current").to_pylist()
        assert sorted((row["carrier"], row["delay"]) for row in found) == rows
        return snapshot

    first = build([("a", 1), ("b", 2)], None)
    build([("a", 5), ("c", 3)], first)


def test_guide_shows_a_transform_with_a_check(tmp_path: Path) -> None:
    ((_, source),) = list_blocks(read_chapter("transforms", "A transform"))
    job = LocalJob(tmp_path)
    flights = pa.table({"day": ["2013-07-10"] * 3, "carrier": ["UA", "UA", "AA"]})
    job.write("/nyc/clean/flights", flights)

    result = job.run(source, inputs={"flights": "/nyc/clean/flights"}, outputs={"daily": "/nyc/delays/daily"})

    assert result.status == "ok", result.error
    rows = job.read("/nyc/delays/daily").sort_by("carrier").to_pylist()
    assert [(row["carrier"], row["len"]) for row in rows] == [("AA", 1), ("UA", 2)]
