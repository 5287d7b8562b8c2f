"""A job whose result cannot be published for lost races goes back to the queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from webapp.builds.runner.manifests import Place
from webapp.builds.services.running import _Attempt
from webapp.catalog.rules.errors import CommitFailed


def test_attempt_is_put_back_after_lost_races(monkeypatch: pytest.MonkeyPatch) -> None:
    put_back: list[tuple[str, int]] = []

    def lose(_self: object, _place: Place) -> None:
        raise CommitFailed("other commits kept moving the tables")

    def note(_self: object, reason: str, *, lost: int) -> None:
        put_back.append((reason, lost))

    monkeypatch.setattr(_Attempt, "_run_at", lose)
    monkeypatch.setattr(_Attempt, "_put_back", note)
    nothing: Any = None
    _Attempt(job=nothing, build=nothing, log=nothing, waited_for="")._try_at(Place(Path("none")))
    assert put_back == [("other commits kept moving the tables", 0)]
