"""An answer is given again to the same request and no other, of the same version of the database and no other, for a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from webapp.catalog.api import repeats
from webapp.catalog.api.http import CatalogResponse, Repeat
from webapp.catalog.api.repeats import KEPT_BYTES, OVERHEAD_BYTES, Question, Repeats
from webapp.core import clock
from webapp.core.change_counter import ChangeCounter, Version


class Counter(ChangeCounter):
    """A database that has been changed so many times."""

    changes: int | None = 0

    def read(self) -> Version | None:
        """The version that the test says."""
        return None if self.changes is None else Version(1, self.changes)


def make_scope(path: str = "/iceberg/v1/config", *, method: str = "GET", query: bytes = b"", **headers: str) -> Any:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"method": method, "path": path, "raw_path": path.encode(), "query_string": query, "headers": lines}


def make_answer(body: bytes = b"{}", *, notes: list[str] | None = None, seconds: float = 60) -> CatalogResponse:
    note = None if notes is None else lambda: notes.append("given")
    return CatalogResponse(200, body, repeat=Repeat(clock.now() + timedelta(seconds=seconds), note))


def ask(answers: Repeats, scope: Any) -> Question:
    question = answers.ask(scope)
    assert question is not None
    return question


def is_known(answers: Repeats, scope: Any) -> bool:
    return answers.find(ask(answers, scope)) is not None


def test_an_answer_is_for_the_same_request_only() -> None:
    answers = Repeats(Counter(), limit=KEPT_BYTES)
    scopes = [
        make_scope(),
        make_scope(authorization="Bearer a"),
        make_scope(authorization="Bearer b"),
        make_scope(authorization="Bearer a", **{"x-pltr-branch": "b"}),
        make_scope("/iceberg/v1/namespaces", authorization="Bearer a"),
        make_scope(query=b"pageSize=1", authorization="Bearer a"),
    ]
    for count, scope in enumerate(scopes):
        assert not is_known(answers, scope), count
        answers.keep(ask(answers, scope), make_answer(str(count).encode()))
    for count, scope in enumerate(scopes):
        answer = answers.find(ask(answers, scope))
        assert answer is not None
        assert answer.body == str(count).encode()


def test_only_what_is_read_is_kept_and_only_where_versions_are_told() -> None:
    counter = Counter()
    answers = Repeats(counter, limit=KEPT_BYTES)
    assert answers.ask(make_scope(method="POST")) is None
    assert answers.ask(make_scope(method="HEAD")) is None
    counter.changes = None
    assert answers.ask(make_scope()) is None


def test_a_change_ends_every_answer() -> None:
    counter = Counter()
    answers = Repeats(counter, limit=KEPT_BYTES)
    answers.keep(ask(answers, make_scope()), make_answer())
    counter.changes = 1
    assert not is_known(answers, make_scope())
    counter.changes = 0  # no version comes back, and if it did
    assert not is_known(answers, make_scope())


def test_an_answer_whose_question_is_older_than_the_last_change_is_not_kept() -> None:
    counter = Counter()
    answers = Repeats(counter, limit=KEPT_BYTES)
    early = ask(answers, make_scope())
    counter.changes = 1
    assert not is_known(answers, make_scope("/iceberg/other"))
    answers.keep(early, make_answer())
    assert not is_known(answers, make_scope())
    # The change may come while the answer is made, and nobody asks meanwhile: the next question is of another version.
    late = ask(answers, make_scope())
    counter.changes = 2
    answers.keep(late, make_answer())
    assert not is_known(answers, make_scope())


def test_each_time_counts_until_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Repeats(Counter(), limit=KEPT_BYTES)
    notes: list[str] = []
    answers.keep(ask(answers, make_scope()), make_answer(notes=notes, seconds=60))
    for _ in range(3):
        assert is_known(answers, make_scope())
    assert len(notes) == 3
    later = clock.now() + timedelta(seconds=60)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert not is_known(answers, make_scope())
    assert len(notes) == 3


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "LARGEST_BYTES", 100)
    answers = Repeats(Counter(), limit=10 * (100 + OVERHEAD_BYTES))
    answers.keep(ask(answers, make_scope()), make_answer(b"x" * 101))
    assert not is_known(answers, make_scope())
    scopes = [make_scope(query=str(n).encode()) for n in range(50)]
    for scope in scopes:
        answers.keep(ask(answers, scope), make_answer(b"x" * 100))
    assert [is_known(answers, scope) for scope in scopes] == [False] * 40 + [True] * 10


def test_what_may_not_be_repeated_is_not_kept() -> None:
    answers = Repeats(Counter(), limit=KEPT_BYTES)
    answers.keep(ask(answers, make_scope()), CatalogResponse(200, b"{}", lasts=True))
    assert not is_known(answers, make_scope())
