"""What becomes of a comparison whose process was lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.builds.runner.launcher import LOST
from webapp.core import clock
from webapp.core.errors import TooManyRequests
from webapp.datasets.models import Dataset
from webapp.pulls.models import Comparison
from webapp.pulls.rules import states
from webapp.pulls.services import comparisons, history

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def running(attempt: int) -> Comparison:
    dataset = Dataset.objects.create(path="/shop/a", table="shop.a")
    return Comparison.objects.create(
        identity="1" * 64,
        dataset=dataset,
        state=states.RUNNING,
        attempt=attempt,
        lease_until=clock.now(),
    )


def finish(comparison: Comparison, code: int, folder: Path) -> Comparison:
    held = Comparison.objects.filter(pk=comparison.pk, state=states.RUNNING, attempt=comparison.attempt)
    comparisons._finish(folder / "result.json", code, held, folder)
    comparison.refresh_from_db()
    return comparison


def test_a_lost_job_runner_costs_a_try_and_not_the_comparison(tmp_path: Path) -> None:
    assert finish(running(1), LOST, tmp_path).state == states.QUEUED


def test_a_second_loss_is_a_failure_with_its_reason(tmp_path: Path) -> None:
    failed = finish(running(comparisons.TRIES), LOST, tmp_path)
    assert failed.state == states.FAILED
    assert "ended with code -1" in failed.error


def test_a_process_without_an_answer_fails_by_name(tmp_path: Path) -> None:
    assert "ended with code 137" in finish(running(1), 137, tmp_path).error


def test_a_dead_worker_is_taken_over_once(db: None) -> None:
    comparison = running(1)
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == states.QUEUED
    Comparison.objects.update(state=states.RUNNING, attempt=comparisons.TRIES)
    comparisons.sweep_comparisons()
    comparison.refresh_from_db()
    assert comparison.state == states.FAILED
    assert "died twice" in comparison.error


class Stuck:
    """A process that does not end by itself."""

    stopped = False

    def wait(self, _seconds: float) -> int | None:
        return None

    def stop(self) -> int:
        self.stopped = True
        return 0


def test_a_process_beyond_its_time_is_stopped_and_says_so(tmp_path: Path) -> None:
    comparison, handle = running(1), Stuck()
    held = Comparison.objects.filter(pk=comparison.pk)

    assert comparisons._watch(handle, tmp_path, held, time_limit_s=0.0) is None  # type: ignore[arg-type]

    comparison.refresh_from_db()
    assert handle.stopped
    assert (comparison.state, comparison.code) == (states.FAILED, "time_limit")
    assert "longer than 0 s" in comparison.error


def test_too_many_waiting_comparisons_refuse_more(monkeypatch: pytest.MonkeyPatch) -> None:
    running(1)
    monkeypatch.setattr(history, "MOST_WAITING", 1)
    with pytest.raises(TooManyRequests, match="1 comparisons wait already"):
        history.check_queue()
