"""Every test has its own folder of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from tests.integration.repositories.live import LiveServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


@pytest.fixture(autouse=True)
def own_home(home: Path) -> Path:
    """Keep the bare repositories of a test apart."""
    return home


@pytest.fixture
def ines(db: None) -> Principal:
    """Return a person who makes repositories."""
    return make.a_person("ines")


@pytest.fixture
def repository(ines: Principal) -> Repository:
    """Return a repository that Ines maintains."""
    return make.a_repository("nyc", by=ines)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Serve one home to all tests of a module."""
    server = LiveServer.start(tmp_path_factory.mktemp("home"))
    yield server
    server.close()
