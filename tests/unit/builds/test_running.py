"""What is left of an attempt when it ends, whatever its job did and whatever fails meanwhile."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from tests.unit.runtime.test_folders import make_deep
from webapp.builds.runner.manifests import Place
from webapp.builds.services import running


def test_no_step_of_the_end_is_left_out_because_another_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, steps = Place(tmp_path / "work"), []

    def fail(**_: Any) -> None:
        raise OperationalError("database is locked")

    def fill(_attempt: object, _place: Place) -> None:
        make_deep(place.folder)
        place.seal.touch()

    monkeypatch.setattr(running.paths, "work_folder", lambda *_: place.folder)
    monkeypatch.setattr(running.account_services, "revoke_job_tokens", fail)
    monkeypatch.setattr(running._Attempt, "_run_at", fill)
    monkeypatch.setattr(running._Attempt, "_leave_own_folders", lambda _: steps.append("own folders"))
    job: Any = SimpleNamespace(pk="1", attempt=1, profile="light")
    attempt = running._Attempt(job=job, build=job, log=job, waited_for="")
    attempt.opened.callback(steps.append, "opened")
    with pytest.raises(OperationalError):
        attempt.run()
    assert steps == ["opened", "own folders"]
    assert not place.folder.exists()
    assert not place.seal.exists()
