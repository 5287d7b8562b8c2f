"""A dataset's icon is blue where a JobSpec on master makes it, else gray: in lists, on pages and in REST."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories.build_rows import a_jobspec, a_world
from webapp.accounts.models import User
from webapp.datasets import queries, services
from webapp.datasets.models import Dataset

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from rest_framework.test import APIClient

    from tests.factories.build_rows import World

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
MADE, TRIED, LOADED = "/shop/made", "/shop/tried", "/shop/loaded"


@pytest.fixture
def world(home: Any) -> World:
    """One dataset that master makes, one that only a branch makes, one that was loaded."""
    world = a_world(raw=[])
    by_master = a_jobspec("made", inputs=[LOADED], outputs=[MADE])
    world.publish(by_master)
    world.branch("feature")
    world.publish(by_master, a_jobspec("tried", inputs=[MADE], outputs=[TRIED]), branch="feature")
    for path in (MADE, TRIED, LOADED):
        services.get_or_create_dataset(path=path, by=world.maker)
    return world


@pytest.fixture
def maker(world: World) -> User:
    return User.objects.get(pk=world.maker.user_id)


def colours(page: Any) -> dict[str, set[str]]:
    by_path: dict[str, set[str]] = {}
    for colour, path in re.findall(r'class="icon ds-(\w+)[^"]*" data-ds="([^"]+)"', page.content.decode()):
        by_path.setdefault(path, set()).add(colour)
    return by_path


def test_rest_says_it(api_client: Callable[..., APIClient], maker: User) -> None:
    api = api_client(maker)

    listed = {row["path"]: row["jobspec_on_master"] for row in api.get("/api/v1/datasets").json()["results"]}

    assert listed == {MADE: True, TRIED: False, LOADED: False}
    for path, is_made in listed.items():
        number = Dataset.objects.get(path=path).pk
        assert api.get(f"/api/v1/datasets/{number}").json()["jobspec_on_master"] is is_made
    new = api.post("/api/v1/datasets", {"path": "/shop/new"}, format="json").json()
    assert new["jobspec_on_master"] is False


def test_pages_show_it(client: Client, maker: User, world: World) -> None:
    client.force_login(maker)

    assert colours(client.get("/datasets")) == {MADE: {"blue"}, TRIED: {"gray"}, LOADED: {"gray"}}
    for path, colour in {MADE: "blue", TRIED: "gray", LOADED: "gray"}.items():
        assert colours(client.get(f"/d{path}"))[path] == {colour}
    assert colours(client.get("/search", {"q": "shop"})) == {MADE: {"blue"}, TRIED: {"gray"}, LOADED: {"gray"}}
    specs = colours(client.get(f"/r/{world.repository.name}/jobspecs", {"branch": "feature"}))
    assert specs == {MADE: {"blue"}, TRIED: {"gray"}}


def test_a_name_that_looks_like_an_icon_paints_nothing(client: Client, maker: User) -> None:
    dataset = queries.find_dataset(LOADED)
    assert dataset is not None
    dataset.description = f'class="icon ds-gray" data-ds="{MADE}"'
    dataset.save()
    client.force_login(maker)

    page = client.get(f"/d{LOADED}")

    assert MADE not in colours(page)
    assert "ds-blue" not in page.content.decode()
