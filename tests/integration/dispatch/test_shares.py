"""Work that a user asks for: the slots of queries, previews and comparisons follow the rule of shares."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.factories import repositories as make
from tests.factories.messages import Messages, committing
from webapp.comparisons.models import Comparison
from webapp.comparisons.services import comparisons
from webapp.core.principals import Principal
from webapp.datasets.services import create_dataset
from webapp.dispatch.fair_slots import FairSlots
from webapp.previews import services as previews
from webapp.previews.models import CodePreview
from webapp.repositories.models import Repository
from webapp.sql import services as sql
from webapp.sql.models import Query

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def a_query(repository: Repository, by: Principal) -> Query:
    return Query.objects.create(repository=repository, by_id=by.user_id, branch="master", sql="SELECT 1")


def a_preview(repository: Repository, by: Principal) -> CodePreview:
    fields = {"branch": "master", "head": "0" * 40, "file": "a.py"}
    return CodePreview.objects.create(repository=repository, by_id=by.user_id, **fields)


def a_comparison(repository: Repository, by: Principal) -> Comparison:
    count = Comparison.objects.count()
    dataset = create_dataset(path=f"/{repository.name}/d{count}", by=make.maker_of(repository))
    return Comparison.objects.create(identity=str(count), dataset=dataset, by_id=by.user_id)


KINDS = {
    "query": (a_query, sql, sql.run_query),
    "preview": (a_preview, previews, previews.run_preview),
    "comparison": (a_comparison, comparisons, comparisons.run_comparison),
}


@pytest.mark.parametrize("kind", KINDS)
def test_user_at_their_share_waits_and_others_do_not(home: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_row, module, run = KINDS[kind]
    mallory, olek = make.a_person("mallory"), make.a_person("olek")
    repository = make.a_repository("loops", by=mallory)
    slots, begun = patch(module, monkeypatch)
    first, second = make_row(repository, mallory), make_row(repository, olek)
    assert slots.take(mallory.user_id)
    messages = Messages()
    messages.start()
    try:
        for row in (first, second):
            with committing():
                run(**{f"{kind}_id": row.pk})
        assert begun == [second.pk]
        assert not messages.waiting, "nobody who waits may start"
        slots.release(mallory.user_id)
        third = make_row(repository, olek)
        with committing():
            run(**{f"{kind}_id": third.pk})
        assert begun == [second.pk, third.pk]
        assert [message["id"] for _, message in messages.waiting.values()] == [first.pk]
    finally:
        messages.stop()


def patch(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> tuple[FairSlots, list[int]]:
    """Let a module have two slots; return them with the list of what it begins to run."""
    slots, begun = FairSlots(2), []
    monkeypatch.setattr(module, "SLOTS", slots)
    monkeypatch.setattr(module, "_run", lambda row, _held: begun.append(row.pk))
    return slots, begun
