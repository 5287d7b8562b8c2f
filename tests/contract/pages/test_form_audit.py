"""Every form of a page leaves one entry in the audit log when it has done its act: who did what, to which thing.

Forms come from the table of addresses: whatever takes POST has a case here, so that a new form without one is named.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.messages import get_messages

from tests.factories.everything import World, make_world
from tests.factories.forms import list_form_names, list_forms, name_of, send
from webapp.accounts.models import AuditEntry
from webapp.accounts.rules.audit import HOURLY, READS, SYSTEM

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(readers: Path) -> World:
    return make_world()


def list_acts(*, behind: int) -> list[tuple[str, str, str]]:
    """Actor, verb and object of what people did; what is counted by the minute and what follows of itself is neither."""
    entries = (
        AuditEntry.objects.filter(pk__gt=behind, job_id="").exclude(verb__in=(*READS, *HOURLY)).exclude(actor=SYSTEM)
    )
    return list(entries.order_by("pk").values_list("actor", "verb", "object"))


def test_every_form_leaves_one_entry(world: World) -> None:
    sent = set()
    wrong = []
    for form in list_forms(world):
        sent.add(name_of(form.address.format(comment=1, pending=1)))
        last = AuditEntry.objects.order_by("pk").values_list("pk", flat=True).last() or 0
        answer = send(form)
        acts = list_acts(behind=last)
        if [(actor, verb) for actor, verb, _ in acts] != [(form.by, form.verb)] or not acts[0][2].startswith(
            form.object
        ):
            said = [str(message) for message in get_messages(answer.wsgi_request)]
            wrong.append((form, answer.status_code, said, acts))
    assert wrong == []
    assert sent == list_form_names(world)
