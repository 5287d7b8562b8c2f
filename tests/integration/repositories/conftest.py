"""Every test has its own folder of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

    from webapp.accounts.rules.principals import Principal
    from webapp.repositories.models import Repository


@pytest.fixture(autouse=True)
def home(settings: SettingsWrapper, tmp_path: Path) -> Path:
    """Keep the bare repositories of a test apart."""
    settings.TRIBUTARY_HOME = tmp_path
    return tmp_path


@pytest.fixture
def ines(db: None) -> Principal:
    """Return a person who makes repositories."""
    return make.a_person("ines")


@pytest.fixture
def repository(ines: Principal) -> Repository:
    """Return a repository that Ines maintains."""
    return make.a_repository("nyc", by=ines)
