"""A pull request, with people who are told about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import repositories as make
from webapp.pulls import services

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.accounts.models import User
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest


@pytest.fixture
def ines(home: Path, admin: User, silent_bell: None) -> Principal:
    """The maker of repository shop, who opened the pull request."""
    return make.a_person("ines")


@pytest.fixture
def pull(ines: Principal) -> PullRequest:
    """A pull request that changes a file."""
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "one\n"}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Count <late>", source="feature", target="master", by=ines)


@pytest.fixture
def olek(pull: PullRequest) -> Principal:
    """A writer."""
    return make.a_member(pull.repository, "writer", "olek")
