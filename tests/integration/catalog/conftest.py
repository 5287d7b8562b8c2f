"""The catalog with a real database and real files, without the apps above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.factories.catalog import Catalog
    from webapp.accounts.models import User


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Nobody above: what the layers above would say is said by the test."""
    from webapp.catalog import ports, signals

    for name in ("find_chain", "lock_tables", "check_commit"):
        monkeypatch.setattr(ports, name, lambda **_asked: None)
    every = [value for name, value in vars(signals).items() if name.endswith(("ed", "ing"))]
    kept = [(signal, signal.receivers) for signal in every]
    for signal in every:
        signal.receivers = []
        signal.sender_receivers_cache.clear()
    yield signals
    for signal, receivers in kept:
        signal.receivers = receivers
        signal.sender_receivers_cache.clear()


@pytest.fixture
def catalog(home: Any, admin: User, alone: Any) -> Catalog:
    """The catalog as the admin calls it."""
    from tests.factories.catalog import Catalog
    from webapp.accounts.services import create_token

    caller = Catalog(create_token(user=admin, name="tests")[1])
    caller.create_namespace("shop")
    return caller


@pytest.fixture
def catalog_for(home: Any, alone: Any) -> Callable[..., Catalog]:
    """The catalog as a user with a new token calls it."""
    from tests.factories.catalog import Catalog
    from webapp.accounts.services import create_token

    def make(user: User, **token: Any) -> Catalog:
        return Catalog(create_token(user=user, name="tests", **token)[1])

    return make
