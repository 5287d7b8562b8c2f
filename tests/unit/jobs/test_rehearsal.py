"""The fork server rehearses what every job does, and can still fork."""

from __future__ import annotations

import threading

import pytest
from pyiceberg.utils.concurrent import ExecutorFactory
from requests import Session

from jobs.entrypoints.rehearsal import rehearse


def test_rehearse_leaves_no_thread_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExecutorFactory, "_instance", None)
    monkeypatch.setattr(Session, "send", lambda *_, **__: pytest.fail("sent a request"))
    before = set(threading.enumerate())
    rehearse()
    assert set(threading.enumerate()) == before
    assert ExecutorFactory._instance is None
