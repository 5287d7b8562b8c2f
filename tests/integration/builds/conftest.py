"""One installation for all build tests, which ends with them; each test has folders and branches of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories.builds import Stack, running_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return an installation whose jobs may take eight seconds, or as many as a busy run says, with the repository shop and a raw dataset."""
    home: Path = tmp_path_factory.mktemp("builds") / "home"
    home.mkdir(mode=0o700)
    more = {"TRIBUTARY_LOCATIONS": f"file:{home.with_name('lake')}"}
    with running_stack(home, TRIBUTARY_JOB_SECONDS=os.environ.get("TEST_JOB_SECONDS", "8"), **more) as running:
        running.make_repository()
        answer = running.upload("/shop/raw", "a,b\n1,x\n2,y\n")
        assert answer.status_code == 201, answer.text
        yield running
