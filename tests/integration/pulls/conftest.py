"""One installation for all pull request tests, which ends with them, with two more people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.factories import repositories as make
from tests.factories.builds import Stack, running_stack

if TYPE_CHECKING:
    from webapp.accounts.models import User
    from webapp.core.principals import Principal

PEOPLE = {"ines": "writer", "mira": "maintainer", "olek": "reader"}
PASSWORD = "a-password-of-people-1"

Call = Callable[..., Any]


@pytest.fixture
def ines(home: Path, admin: User) -> Principal:
    """The author, who makes the repository where the test's own process has one."""
    return make.a_person("ines")


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return an installation with the repository shop, a raw dataset and people."""
    home: Path = tmp_path_factory.mktemp("pulls") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home) as running:
        running.make_repository()
        for name, role in PEOPLE.items():
            running.call("POST", "/users", json={"username": name, "password": PASSWORD}, expect=201)
            running.call("POST", "/repositories/shop/members", json={"user": name, "role": role}, expect=201)
        running.call("POST", "/users", json={"username": "stranger", "password": PASSWORD}, expect=201)
        answer = running.upload("/shop/orders", "id,amount\n1,10\n2,20\n3,30\n4,40\n")
        assert answer.status_code == 201, answer.text
        yield running


@pytest.fixture(scope="package")
def tokens(stack: Stack) -> dict[str, str]:
    """Return a token of each person."""
    return {name: make_token(stack, name) for name in [*PEOPLE, "stranger"]}


def make_token(stack: Stack, name: str, **more: Any) -> str:
    """Make a token of a person by name and password."""
    answer = requests.post(f"{stack.url}/tokens", json={"name": "tests", **more}, auth=(name, PASSWORD), timeout=10)
    answer.raise_for_status()
    token: str = answer.json()["token"]
    return token


@pytest.fixture
def ask(stack: Stack, tokens: dict[str, str]) -> Call:
    """Call the API as somebody: `ask("ines", "GET", "/builds", expect=200)`."""

    def call(who: str, method: str, path: str, *, expect: int, **more: Any) -> Any:
        answer = requests.request(
            method, f"{stack.url}{path}", headers={"Authorization": f"Bearer {tokens[who]}"}, timeout=60, **more
        )
        assert answer.status_code == expect, f"{method} {path}: {answer.status_code} {answer.text}"
        is_json = answer.headers.get("Content-Type", "").split(";")[0].endswith("json")
        return answer.json() if is_json and answer.content else answer.content

    return call
