"""Slots over rows: the order in which waiting work is started."""

from __future__ import annotations

from typing import Any

import pytest

from tests.factories import repositories as make
from webapp.dispatch.fair_slots import FairSlots
from webapp.sql.models import Query

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def waiting(home: Any) -> dict[str, list[int]]:
    """Queries that wait: three of mallory, then two of olek, then one of a user who is gone."""
    mallory, olek = make.a_person("mallory"), make.a_person("olek")
    repository = make.a_repository("loops", by=mallory)
    people = {"mallory": [mallory.user_id] * 3, "olek": [olek.user_id] * 2, "gone": [None]}
    return {
        name: [Query.objects.create(repository=repository, by_id=by, branch="master", sql="SELECT 1").pk for by in ids]
        for name, ids in people.items()
    }


def list_next(slots: FairSlots) -> list[int]:
    return [row.pk for row in slots.in_turn(Query.objects.free().order_by("pk"), user="by")]


def owner_of(pk: int) -> int | None:
    return Query.objects.values_list("by", flat=True).get(pk=pk)


def test_users_without_a_slot_come_first(waiting: dict[str, list[int]]) -> None:
    slots = FairSlots(6)
    assert list_next(slots) == [waiting["mallory"][0]]
    slots.take(owner_of(waiting["mallory"][0]))
    assert list_next(slots) == [waiting["olek"][0], waiting["mallory"][0]]
    slots.take(owner_of(waiting["olek"][0]))
    assert list_next(slots) == [waiting["gone"][0], waiting["mallory"][0]]
    slots.take(None)
    assert list_next(slots) == [waiting["mallory"][0]]


def test_user_at_half_is_passed_over(waiting: dict[str, list[int]]) -> None:
    slots = FairSlots(4)
    mallory, olek = owner_of(waiting["mallory"][0]), owner_of(waiting["olek"][0])
    assert slots.take(mallory)
    assert slots.take(mallory)
    assert not slots.take(mallory)
    assert list_next(slots) == [waiting["olek"][0]]
    assert slots.take(olek)
    assert not slots.take(olek), "the last slot is for a user who holds none"
    assert list_next(slots) == [waiting["gone"][0]]
    assert slots.take(None)
    assert list_next(slots) == []
