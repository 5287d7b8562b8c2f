"""What becomes of a comparison whose process was lost."""

from __future__ import annotations

import os
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.template.loader import render_to_string
from django.test import RequestFactory
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from jobs.protocol import DiffResult, InterruptRequest, SparkAccess, write_message
from tests.factories import engine as tables
from tests.factories import repositories as make
from webapp.accounts.rules.sight import EVERYTHING
from webapp.comparisons.api.rows import read_rows
from webapp.comparisons.models import Comparison
from webapp.comparisons.pages.progress import ComparisonProgress, describe_progress, describe_reached
from webapp.comparisons.pages.rows import DiffPlace, read_first_rows
from webapp.comparisons.queries.artifacts import artifact_folder, first_rows_folder
from webapp.comparisons.queries.counts import count_rows
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.serializers.described import RowCountsSerializer
from webapp.comparisons.services import comparisons, history, spark
from webapp.comparisons.services.requests import Work
from webapp.core import clock
from webapp.core.errors import TooManyRequests, Unavailable
from webapp.datasets.models import Dataset
from webapp.dispatch.leases import MAX_LOST
from webapp.dispatch.processes import OVER_MEMORY, ProcessEnd, watch
from webapp.dispatch.sweeps import LATE_S
from webapp.runtime.fork_server import LOST

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def running(*, lost: int = 0) -> Comparison:
    dataset = Dataset.objects.create(path="/shop/a", table="shop.a")
    return Comparison.objects.create(
        identity="1" * 64,
        dataset=dataset,
        state=ComparisonState.RUNNING,
        attempt=1,
        lost=lost,
        lease_until=clock.now(),
    )


def finish(comparison: Comparison, code: int, folder: Path) -> Comparison:
    held = Comparison.objects.held(comparison)
    comparisons._finish(ProcessEnd.of_code(code), held, folder, time_limit_s=600)
    comparison.refresh_from_db()
    return comparison


def test_a_lost_job_runner_costs_a_try_and_not_the_comparison(tmp_path: Path) -> None:
    assert finish(running(), LOST, tmp_path).state == ComparisonState.QUEUED


def test_a_second_loss_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    failed = finish(running(lost=MAX_LOST), LOST, tmp_path)
    assert failed.state == ComparisonState.FAILED
    assert "ended with code -1" in failed.error


def test_a_process_without_an_answer_fails_by_name(tmp_path: Path) -> None:
    assert "ended with code 137" in finish(running(), 137, tmp_path).error


def test_a_process_that_held_too_much_memory_fails_by_name(tmp_path: Path) -> None:
    failed = finish(running(), OVER_MEMORY, tmp_path)
    assert (failed.state, failed.code) == (ComparisonState.FAILED, "memory_limit")
    assert "4,294,967,296 bytes of memory" in failed.error


@pytest.mark.parametrize("trap", ["link", "fifo", "link inside"])
def test_what_a_process_left_besides_plain_files_is_not_shown(tmp_path: Path, trap: str) -> None:
    write_message(tmp_path / "result.json", DiffResult(status="ok"))
    (tmp_path / "first").mkdir()
    place = tmp_path / ("first" if trap == "link inside" else "") / "rows.parquet"
    os.mkfifo(place) if trap == "fifo" else place.symlink_to("/etc/passwd")
    failed = finish(running(), 0, tmp_path)
    assert (failed.state, failed.code) == (ComparisonState.FAILED, "crashed")
    assert "regular files" in failed.error


def test_a_sweep_that_was_held_up_lets_workers_renew_their_leases_first(db: None) -> None:
    comparison = running()
    comparisons.turns.began = time.monotonic() - LATE_S - 1
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == ComparisonState.RUNNING
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == ComparisonState.QUEUED


def test_a_dead_worker_is_taken_over_once(db: None) -> None:
    comparisons.turns.began = None
    comparison = running()
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == ComparisonState.QUEUED
    Comparison.objects.update(state=ComparisonState.RUNNING, lost=MAX_LOST, lease_until=clock.now())
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == ComparisonState.FAILED
    assert "died twice" in comparison.error


def ask(**parameters: str) -> Any:
    """A request for rows, as the REST API reads it."""
    return RequestFactory().get("/rows", parameters)


def test_the_first_rows_are_shown_while_the_rest_is_written(tmp_path: Path, settings: Any, fork_server: Any) -> None:
    settings.TRIBUTARY_HOME = tmp_path
    fork_server.serve(tmp_path)
    comparison = running()
    place = DiffPlace(url="/x", keeps={}, csv_url="", parquet_url="")
    assert read_first_rows(first_rows_folder(comparison), EVERYTHING, place=place) is None
    table = tables.make_table(tmp_path, Schema(NestedField(1, "k", LongType())))
    table.append(tables.arrow_rows(table, [{"k": n} for n in range(7000, 7300)]))
    made = tables.diff(tmp_path, None, tables.side(table, tables.snapshot_of(table)), key=["k"])
    folder = artifact_folder(comparison) / "first"
    shutil.copytree(made["folder"] / "first", folder)
    shown = read_first_rows(first_rows_folder(comparison), EVERYTHING, place=place)
    progress = ComparisonProgress("Writing.", None, (300, 0, 0))
    page = render_to_string(
        "comparisons/_moving.html", {"view": {"state": "running", "progress": progress, "first_rows": shown}}
    )
    assert "7000" in page
    assert "7049" in page
    assert "7050" not in page
    comparison.progress = {"phase": "writing", "summary": {"inserted": 300, "deleted": 0, "updated": 0, "unchanged": 0}}
    answer = read_rows(ask(limit="150"), comparison, EVERYTHING)
    assert (answer["state"], answer["mode"], answer["key"], answer["next"]) == ("running", "identifier", ["k"], None)
    assert [row["key"]["k"] for row in answer["rows"]] == list(range(7000, 7150))
    assert (answer["summary"]["inserted"], "total" in answer) == (300, False)
    for narrowed in ({"change": "deleted"}, {"q": "k=7250"}, {"sort": "-k"}, {"column": "k"}, {"cursor": "x"}):
        assert read_rows(ask(**narrowed), comparison, EVERYTHING)["rows"] == []
    (folder / "rows.parquet").unlink()
    (folder / "summary.json").touch()
    assert read_first_rows(first_rows_folder(comparison), EVERYTHING, place=place) is None
    assert read_rows(ask(), comparison, EVERYTHING)["rows"] == []
    comparison.state = ComparisonState.READY
    assert first_rows_folder(comparison) is None


def test_an_end_that_was_not_measured_is_no_null() -> None:
    side = {"rows": 3, "nulls": 0, "distinct": 2, "distinct_exact": True, "min": None, "max": None, "quantiles": {}}

    cells = render_to_string("comparisons/_side.html", {"side": side})

    assert "null" not in cells


def test_counts_by_row_ids_are_told_until_values_are_compared(tmp_path: Path) -> None:
    comparison = running()
    comparison.progress = {"phase": "comparing", "by_row_ids": {"inserted": 1, "deleted": 2, "updated": 31_000}}
    page = render_to_string(
        "comparisons/_moving.html", {"view": {"state": "running", "progress": describe_progress(comparison)}}
    )
    assert "About" in page
    assert "31,000" in page
    assert "by row ids" in page
    answer = RowCountsSerializer(count_rows(comparison)).data
    assert (answer["updated"], answer["by_row_ids"]["updated"]) == (None, 31_000)
    comparison.progress = {
        "phase": "writing",
        "by_row_ids": None,
        "summary": {"inserted": 0, "deleted": 2, "updated": 9},
    }
    page = render_to_string(
        "comparisons/_moving.html", {"view": {"state": "running", "progress": describe_progress(comparison)}}
    )
    assert "About" not in page


@pytest.mark.parametrize(
    ("known", "text", "percent"),
    [
        ({}, "Starting, 90 s so far.", None),
        ({"phase": "planning"}, "Finding the files that differ, 90 s so far.", None),
        ({"phase": "comparing", "files": 8}, "Comparing 8 files that differ, 90 s so far.", None),
        ({"phase": "comparing", "files": 1}, "Comparing 1 file that differs, 90 s so far.", None),
        ({"phase": "comparing", "files": 8, "files_done": 0}, "Comparing 8 files that differ, 90 s so far.", None),
        (
            {"phase": "comparing", "files": 8, "files_done": 6},
            "Compared 6 of 8 files that differ, 90 s so far.",
            75,
        ),
        ({"phase": "statistics", "files": 8, "files_done": 6}, "Measuring the columns, 90 s so far.", None),
    ],
)
def test_progress_is_told_in_words(known: dict[str, Any], text: str, percent: int | None) -> None:
    comparison = running()
    comparison.started_at = clock.now() - timedelta(seconds=90)
    comparison.progress = known
    found = describe_progress(comparison)
    assert (found.text, found.percent) == (text, percent)
    comparison.state, comparison.finished_at = ComparisonState.FAILED, comparison.started_at + timedelta(seconds=30)
    assert describe_reached(comparison).text == (text.replace("90", "30") if known else "")


class Stuck:
    """A process that does not end by itself."""

    stopped = False

    def wait(self, _seconds: float) -> int | None:
        return None

    def stop(self) -> int:
        self.stopped = True
        return 0


def test_a_process_beyond_its_time_is_stopped_and_says_so(tmp_path: Path) -> None:
    comparison, handle = running(), Stuck()
    held = Comparison.objects.held(comparison)

    end = watch(handle, seconds=0.0, look=held.is_running)  # type: ignore[arg-type]
    comparisons._finish(end, held, tmp_path, time_limit_s=0.0)

    comparison.refresh_from_db()
    assert handle.stopped
    assert (comparison.state, comparison.code) == (ComparisonState.FAILED, "time_limit")
    assert "longer than 0 s" in comparison.error


def test_user_with_many_waiting_comparisons_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    mallory, olek = make.a_person("mallory"), make.a_person("olek")
    Comparison.objects.filter(pk=running().pk).update(by=mallory.user_id)
    monkeypatch.setattr(history, "MOST_OWN", 1)
    with pytest.raises(TooManyRequests, match="1 of your comparisons"):
        history._check_room(mallory)
    history._check_room(olek)


class Closed:
    """A process that nobody could watch."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("is_begun", [True, False])
def test_the_spark_session_of_a_process_that_nobody_watches_is_ended(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, *, is_begun: bool
) -> None:
    settings.TRIBUTARY_HOME, settings.SPARK_REMOTE = tmp_path, "sc://x"
    comparison, handle = running(), Closed()
    access = SparkAccess(remote="sc://x", owner="comparison-1", session_id="s", folder=str(tmp_path / "lists"))
    work = Work("diff", InterruptRequest("sc://x", "comparison-1", "s"), "", spark=access)
    monkeypatch.setitem(comparisons.REQUESTS, comparison.kind, lambda *_: work)

    def fail(*_: Any, **_more: Any) -> Any:
        raise OperationalError("the database is away") if is_begun else Unavailable("the job runner starts")

    ended: list[str] = []
    monkeypatch.setattr(spark, "end_session", lambda *, owner, session_id, beat: ended.append(session_id))
    monkeypatch.setattr(comparisons, "launch", (lambda *_, **_more: handle) if is_begun else fail)
    monkeypatch.setattr(comparisons, "watch", fail)

    with pytest.raises(OperationalError if is_begun else Unavailable):
        comparisons._run(comparison, Comparison.objects.filter(pk=comparison.pk))

    assert ended == ["s"] * is_begun
    assert handle.closed is is_begun
    assert not (tmp_path / "lists").exists()
