"""Somebody with one dataset, signed in: what the tests of its pages begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import datasets as make

if TYPE_CHECKING:
    from django.test import Client

    from webapp.accounts.models import User
    from webapp.datasets.models import Dataset


@pytest.fixture
def user() -> User:
    return make.a_user("ines", is_admin=False)


@pytest.fixture
def dataset(user: User) -> Dataset:
    return make.a_dataset("/shop/orders", by=user)


@pytest.fixture
def signed(client: Client, user: User) -> Client:
    client.force_login(user)
    return client
