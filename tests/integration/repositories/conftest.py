"""Every test has its own folder of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make

if TYPE_CHECKING:
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
