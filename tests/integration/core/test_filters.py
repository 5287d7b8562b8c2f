"""Pages of lists: the form of each sends every filter that the page reads, so that choosing one keeps the others."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from tests.factories import repositories
from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.accounts.queries import AuditFilter
from webapp.builds.queries import BuildFilter
from webapp.core.filters import ListFilter
from webapp.datasets.queries import DatasetFilter
from webapp.pulls.queries.lists import PullFilter

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
VALUES = {"state": "", "review": "me", "outcome": "", "since": "2026-01-01T00:00", "until": "2026-01-02T00:00"}
"""What filters hold that do not take any text."""


@pytest.mark.parametrize(
    ("address", "filters"),
    [("/builds", BuildFilter), ("/pulls", PullFilter), ("/datasets", DatasetFilter), ("/settings/audit", AuditFilter)],
)
def test_form_of_a_list_sends_each_of_its_filters(address: str, filters: type[ListFilter]) -> None:
    browser = Client()
    browser.force_login(User.objects.get(pk=repositories.a_person(is_admin=True).user_id))
    names = {name for name, known in filters.list_offers().items() if known.on_page}
    page = read_page(browser.get(address, {name: VALUES.get(name, "x") for name in names}))
    sent = {
        name for form in re.findall(r"<form.*?</form>", page, re.DOTALL) for name in re.findall(r' name="(\w+)"', form)
    }
    assert names <= sent
