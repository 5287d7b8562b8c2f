"""The address of a job's Spark session, and what a job says of its progress."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from jobs.engine.spark import session
from jobs.engine.spark.session import _Progress, session_url


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("sc://localhost:15002", "sc://localhost:15002/;user_id=job-7;session_id=abc"),
        ("sc://localhost:15002/", "sc://localhost:15002/;user_id=job-7;session_id=abc"),
        ("sc://localhost:15002/;token=x", "sc://localhost:15002/;token=x;user_id=job-7;session_id=abc"),
        ("sc://spark:443/;use_ssl=true;", "sc://spark:443/;use_ssl=true;user_id=job-7;session_id=abc"),
    ],
)
def test_a_job_has_an_address_of_its_own(remote: str, url: str) -> None:
    assert session_url(remote, job_id="7", session_id="abc") == url


def test_without_an_id_spark_chooses() -> None:
    assert session_url("sc://a", job_id="a;b", session_id=None) == "sc://a/;user_id=job-a%3Bb"


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    reported: list[tuple[int, int]] = []
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(session.time, "monotonic", lambda: time.now)
    progress = _Progress(said.append, lambda done, total: reported.append((done, total)))

    def tell(at: float, completed: int, total: int, **more: bool) -> None:
        time.now = at
        progress(stages=[SimpleNamespace(num_tasks=total, num_completed_tasks=completed)], **more)

    tell(1, 1, 9)
    tell(3, 2, 9)
    tell(4, 3, 9)
    tell(6, 2, 9)
    tell(9, 0, 0)
    tell(12, 9, 9, done=True)
    assert said == ["progress 2 of 9 tasks"]
    assert reported == [(2, 9)]
