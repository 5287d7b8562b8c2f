"""Pages of lists while others insert and delete: what was there when the first page was read is on one page, once."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import repositories as make
from tests.factories.tiers import thin
from webapp.core.errors import BadRequest
from webapp.core.turning import turn_page
from webapp.pulls.models import Label

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.accounts.models import User
    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ORDERS = [("name",), ("-name",), ("tone", "-name"), ("-tone",), ("pk",)]
TONES = ("plain", "ok", "bad")


@pytest.fixture
def repository(home: Path, admin: User) -> Repository:
    return make.a_repository("shop", by=make.a_person("ines"))


def make_labels(repository: Repository, names: list[str], chance: random.Random) -> None:
    rows = [Label(repository=repository, name=name, tone=chance.choice(TONES)) for name in names]
    Label.objects.bulk_create(rows, ignore_conflicts=True)


def list_items(repository: Repository, order: tuple[str, ...], *, in_memory: bool) -> tuple[Any, dict[str, Any]]:
    rows = Label.objects.filter(repository=repository).order_by(*order)
    if not in_memory:
        return rows, {}
    return sorted(rows, key=lambda label: label.name), {"key": lambda label: (label.name,)}


@pytest.mark.parametrize("seed", thin(range(20), every_run={1, 2}))
def test_every_item_is_on_one_page(repository: Repository, seed: int) -> None:
    for order, in_memory in product(ORDERS, (False, True)):
        Label.objects.all().delete()
        walk(repository, order, random.Random(seed), in_memory=in_memory)


def walk(repository: Repository, order: tuple[str, ...], chance: random.Random, *, in_memory: bool) -> None:
    make_labels(repository, [f"{number:03}" for number in chance.sample(range(0, 200, 2), 15)], chance)
    first = {label.pk for label in Label.objects.all()}
    seen: list[int] = []
    cursor: str | None = ""
    last: tuple[list[int], str | None] = ([], None)
    while cursor is not None:
        items, more = list_items(repository, order, in_memory=in_memory)
        page = turn_page(items, cursor=cursor, size=4, scope="labels", **more)
        seen += [label.pk for label in page.rows]
        cursor, last = page.next, ([label.pk for label in page.rows], page.previous)
        make_labels(repository, [f"{chance.randrange(1, 200, 2):03}" for _ in range(3)], chance)
        doomed = chance.sample(sorted(Label.objects.values_list("pk", flat=True)), 2)
        Label.objects.filter(pk__in=[*doomed, *seen[-1:]]).delete()  # the one at the cursor, too
        first -= {pk for pk in doomed if pk not in seen}
    assert len(seen) == len(set(seen))
    assert first <= set(seen)

    back = list(last[0])
    cursor = last[1]
    while cursor is not None:
        items, more = list_items(repository, order, in_memory=in_memory)
        page = turn_page(items, cursor=cursor, size=4, scope="labels", **more)
        back, cursor = [*(label.pk for label in page.rows), *back], page.previous
    assert len(back) == len(set(back))


def test_a_cursor_of_another_list_is_refused(repository: Repository) -> None:
    make_labels(repository, list("abcdef"), random.Random(1))
    rows = Label.objects.order_by("name")
    cursor = turn_page(rows, cursor="", size=2, scope="one").next
    assert cursor is not None
    for items, scope, text in (
        (rows, "two", cursor),
        (rows.order_by("-name"), "one", cursor),
        (rows, "one", cursor[:-1]),
        (rows, "one", "bzUw"),
        (rows, "one", "é:\ud800"),
    ):
        with pytest.raises(BadRequest, match="not one of ours"):
            turn_page(items, cursor=text, size=2, scope=scope)
