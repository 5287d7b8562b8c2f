"""Queries whose SQL is made once give what the query sets give."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.models import Max, Q, QuerySet
from django.test.utils import CaptureQueriesContext

from webapp.accounts.models import Token, User
from webapp.core import clock
from webapp.core.prepared import Prepared

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def tokens() -> list[Token]:
    made = []
    for n in range(3):
        user = User.objects.create(username=f"user{n}", is_active=n != 1)
        scope = None if n else {"branch": "b"}
        made.append(
            Token.objects.create(
                user=user,
                name="t",
                digest=str(n),
                scopes=["read"],
                job_scope=scope,
                expires_at=clock.now() + timedelta(n),
            )
        )
    return made


def test_models_come_with_what_they_point_to_and_values_of_every_kind(tokens: list[Token]) -> None:
    prepared = Prepared(lambda digest: Token.objects.select_related("user").filter(digest=digest), str)
    for token in (*tokens, *tokens):
        found = prepared.first(token.digest)
        assert found is not None
        fields = [field.attname for field in Token._meta.concrete_fields]
        assert [getattr(found, name) for name in fields] == [getattr(token, name) for name in fields]
        assert (found.user.username, found.user.is_active) == (token.user.username, token.user.is_active)
        assert found._state.adding is False
    assert prepared.first("none") is None


def test_values_and_aggregates_are_converted(tokens: list[Token]) -> None:
    newest = Prepared(
        lambda user: (
            Token.objects.filter(user=user)
            .order_by()
            .values("user")
            .annotate(last=Max("expires_at"))
            .values_list("last", "user")
        ),
        int,
    )
    assert newest.all(tokens[2].user_id) == [(tokens[2].expires_at, tokens[2].user_id)]
    assert newest.all(-1) == []


def test_constants_stay_and_one_argument_may_be_used_twice(tokens: list[Token]) -> None:
    def choose(digest: str, user: int) -> QuerySet[Token, tuple[str, object]]:
        named = Token.objects.filter(name="t", digest=digest) | Token.objects.filter(name=digest, user=user)
        return named.order_by("digest").values_list("digest", "job_scope")

    prepared = Prepared(choose, str, int)
    Token.objects.filter(pk=tokens[1].pk).update(name="2")
    asked = [("0", -1), ("2", tokens[1].user_id), ("2", tokens[0].user_id), ("3", -1)]
    assert [prepared.all(*each) for each in asked] == [list(choose(*each)) for each in asked]
    assert [len(prepared.all(*each)) for each in asked] == [1, 2, 1, 0]


@pytest.mark.parametrize("names", [(), ("0",), ("0", "2"), ("0", "0", "7%s"), ("none",)])
def test_lists_have_any_length(tokens: list[Token], names: tuple[str, ...]) -> None:
    def choose(digests: Collection[str], user: int, others: Collection[str]) -> QuerySet[Token]:
        return Token.objects.filter(Q(digest__in=digests) | Q(user=user)).exclude(digest__in=others).order_by("digest")

    prepared = Prepared(choose, list, int, list)
    for others in ((), {"2"}, ["0", "1", "2"]):
        assert prepared.all(names, tokens[1].user_id, others) == list(choose(names, tokens[1].user_id, others))


def test_the_sql_is_the_query_sets_own(tokens: list[Token]) -> None:
    rows = Token.objects.select_for_update().filter(digest="0")
    prepared = Prepared(lambda digest: Token.objects.select_for_update().filter(digest=digest), str)
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        list(rows)
        prepared.all("0")
    assert asked[0]["sql"] == asked[1]["sql"]
