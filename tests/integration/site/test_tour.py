"""The tour where there is no demo, and addresses that name no step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from webapp.site.pages import tour

if TYPE_CHECKING:
    from django.test import Client

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
OFFER = "Take the tour"


def test_nobody_is_offered_a_tour_without_the_demo(admin_client: Client) -> None:
    assert OFFER not in admin_client.get("/").content.decode()


@pytest.mark.parametrize("step", ["0", "6", "x", "", "1%20"])
def test_what_is_no_step_shows_none(admin_client: Client, step: str) -> None:
    page = admin_client.get(f"/repositories?tour={step}")
    assert page.status_code == 200
    assert "End the tour" not in page.content.decode()


def test_steps_lead_on_and_back(admin_client: Client) -> None:
    for number in range(1, len(tour.STOPS) + 1):
        step = tour.read_step(str(number))
        assert step is not None
        assert bool(step.next_url) == (number < len(tour.STOPS))
        assert bool(step.previous_url) == (number > 1)
    first = admin_client.get("/repositories?tour=1").content.decode()
    assert "step 1 of 5" in first
    assert tour.STOPS[0].title in first
