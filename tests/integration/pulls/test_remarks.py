"""Comments beside the lines and rows that they are about, and what a reader has ticked as viewed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.factories import datasets
from tests.factories import engine as tables
from tests.factories import repositories as make
from webapp.accounts.models import User
from webapp.comparisons.models import Comparison
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.states import ComparisonState
from webapp.core.errors import InvalidInput
from webapp.datasets.models import Transaction
from webapp.pulls import services
from webapp.pulls.models import Comment, PendingComment, PullDataset, PullRequest, Viewed
from webapp.pulls.queries.remarks import list_column_talk, place_row_talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"


@pytest.fixture
def pull(ines: Principal, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request that changes line 2 of a file with three."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": "one\ntwo\nthree\nfour\nfive\n"}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(
        repository, {"notes.txt": "one\nTWO\nthree\nfour\nfive\n", "more.txt": "x\n"}, branch="feature", by=ines
    )
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def reader(pull: PullRequest, client: Client) -> Client:
    """Somebody who may read, signed in."""
    person = make.a_member(pull.repository, "reader", "olek")
    client.force_login(User.objects.get(pk=person.user_id))
    return client


def say(client: Client, **fields: Any) -> str:
    answer = client.post(f"{PAGE}/remark", {"body": "Why?", **fields})
    assert answer.status_code == 302
    return str(answer["Location"])


def file_named(client: Client, path: str) -> Any:
    return next(one for one in client.get(f"{PAGE}/code").context["files"] if one.file.path == path)


def push(pull: PullRequest, files: dict[str, str | None], by: Principal) -> None:
    make.a_commit(pull.repository, files, branch="feature", by=by)
    services.refresh_pull(pull=pull)


@pytest.mark.parametrize(("line", "side"), [(2, "head"), (2, "base"), (3, "head")])
def test_a_remark_stands_below_its_line(reader: Client, line: int, side: str) -> None:
    assert say(reader, path="notes.txt", line=line, side=side) == f"{PAGE}/code?path=notes.txt#file-notes.txt"

    talk = file_named(reader, "notes.txt").talk
    assert [(place, [one.author for one in said]) for place, said in talk.by_line.items()] == [((side, line), ["olek"])]
    assert not talk.others
    for view in ("", "?view=split"):
        assert reader.get(f"{PAGE}/code{view}").content.decode().count('class="talk"') == 1


def test_a_remark_on_what_a_renamed_file_was(reader: Client, pull: PullRequest, ines: Principal) -> None:
    push(pull, {"notes.txt": None, "words.txt": "one\nTwo\nthree\nfour\nfive\n"}, ines)
    say(reader, path="words.txt", line=2, side="base")
    assert list(file_named(reader, "words.txt").talk.by_line) == [("base", 2)]


def test_a_remark_on_a_line_that_is_another_now_is_outdated(reader: Client, pull: PullRequest, ines: Principal) -> None:
    say(reader, path="notes.txt", line=2, side="head")
    push(pull, {"notes.txt": "one\nTwo\nthree\nfour\nfive\n"}, ines)

    talk = file_named(reader, "notes.txt").talk
    assert not talk.by_line
    assert [(one.where, one.quoted, one.is_outdated) for one in talk.others] == [("line 2", "TWO", True)]
    assert "Outdated" in reader.get(f"{PAGE}/code").content.decode()


def test_a_refused_remark_says_why_and_nothing_is_written(reader: Client) -> None:
    assert "#comment-" not in say(reader, path="notes.txt", line=2, body=" ")
    refused = reader.post(f"{PAGE}/remark", {"path": "notes.txt", "line": 99, "side": "head", "body": "Why, though?"})
    assert refused.status_code == 422
    assert "notes.txt has no line 99 after the change" in refused.text
    assert "Why, though?" in refused.text
    assert not Comment.objects.exists()


@pytest.mark.parametrize(
    "place",
    [
        {"path": "notes.txt", "line": 6},
        {"path": "notes.txt", "line": 99, "side": "base"},
        {"path": "notes.txt", "line": 0},
        {"path": "notes.txt", "line": -1},
        {"path": "notes.txt", "line": 2**70},
        {"path": "notes.txt", "line": 6, "start_line": 5},
        {"path": "more.txt", "line": 1, "side": "base"},
        {"path": "more.txt", "line": 2},
        {"path": "empty.txt", "line": 1},
        {"path": "no-such-file.txt", "line": 1},
        {"path": "folder", "line": 1},
        {"path": "../notes.txt", "line": 1},
        {"path": "", "line": 1},
        {"path": "a\0b", "line": 1},
    ],
)
@pytest.mark.parametrize("add", [services.add_comment, services.add_pending])
def test_an_anchor_outside_its_file_is_refused(
    pull: PullRequest, ines: Principal, add: Callable[..., Any], place: dict[str, Any]
) -> None:
    push(pull, {"empty.txt": "", "folder/inner.txt": "x\n"}, ines)
    with pytest.raises(InvalidInput) as refused:
        add(pull=pull, body="Why?", by=ines, anchor={"side": "head", **place})
    assert refused.value.errors is not None
    assert "anchor" in refused.value.errors
    assert not Comment.objects.exists()
    assert not PendingComment.objects.exists()


def test_the_first_and_the_last_line_of_a_file_take_comments(pull: PullRequest, ines: Principal) -> None:
    push(pull, {"open-end.txt": "one\ntwo"}, ines)
    for path, line in (("notes.txt", 1), ("notes.txt", 5), ("open-end.txt", 2)):
        made = services.add_comment(pull=pull, body="Why?", by=ines, anchor={"path": path, "line": line})
        assert made.quoted


def test_who_wrote_a_remark_and_writers_resolve_it(reader: Client, pull: PullRequest, ines: Principal) -> None:
    services.add_comment(pull=pull, body="Hm", by=ines, anchor={"path": "notes.txt", "line": 2})
    say(reader, path="notes.txt", line=2, side="head")
    theirs, own = file_named(reader, "notes.txt").talk.by_line["head", 2]
    assert (theirs.may_resolve, own.may_resolve) == (False, True)

    reader.post(f"{PAGE}/comments/{theirs.id}/resolve", {"resolved": "1"})
    reader.post(f"{PAGE}/comments/{own.id}/resolve", {"resolved": "1"})
    assert [one.resolved_by for one in file_named(reader, "notes.txt").talk.by_line["head", 2]] == ["", "olek"]
    services.resolve_comment(comment=Comment.objects.get(pk=theirs.id), by=ines)
    reader.post(f"{PAGE}/comments/{own.id}/resolve", {"resolved": "0"})
    assert [one.resolved_by for one in file_named(reader, "notes.txt").talk.by_line["head", 2]] == ["ines", ""]
    assert reader.post(f"{PAGE}/comments/999/resolve", {"resolved": "1"}).status_code == 404


def test_a_viewed_file_folds_until_it_changes(reader: Client, pull: PullRequest, ines: Principal) -> None:
    tick = file_named(reader, "notes.txt").viewing
    reader.post(f"{PAGE}/viewed", {"place": tick.place, "content": tick.content, "viewed": "1"})

    page = reader.get(f"{PAGE}/code")
    assert "1 of 2 viewed" in page.content.decode()
    assert [one.viewing.is_viewed for one in page.context["files"]] == [False, True]
    push(pull, {"notes.txt": "one\nTwo\nthree\nfour\nfive\n"}, ines)
    assert not file_named(reader, "notes.txt").viewing.is_viewed

    reader.post(f"{PAGE}/viewed", {"place": tick.place, "content": tick.content})
    reader.post(f"{PAGE}/viewed", {"place": "nothing.txt", "content": "x", "viewed": "1"})
    assert not Viewed.objects.exists()


def test_remarks_on_rows_stand_below_the_row_of_their_key(reader: Client, pull: PullRequest) -> None:
    row = PullDataset.objects.create(pull=pull, path="/shop/orders", change="modified")
    assert (
        say(reader, dataset="/shop/orders", column="amount", **{"key.id": "5"}) == f"{PAGE}/data?dataset=/shop/orders"
    )
    say(reader, dataset="/shop/orders", **{"key.id": "7"})
    say(reader, dataset="/shop/orders")
    assert Comment.objects.order_by("pk").values_list("anchor", flat=True)[0] == {
        "dataset": "/shop/orders",
        "key": {"id": "5"},
        "column": "amount",
    }

    talk = place_row_talk(row, {31: {"id": 5}, 32: {"id": 6}}, make.a_person())
    assert {n: [one.where for one in said] for n, said in talk.by_row.items()} == {31: ["column amount"]}
    assert [remark.where for remark in talk.others] == ["id = 7", ""]
    assert "Unknown" not in reader.get(f"{PAGE}/data?dataset=/shop/orders").content.decode()


def compare_amounts(row: PullDataset, folder: Path, amounts: dict[int, int]) -> None:
    """Have the dataset's comparison show a table of 5 and 6 amounts that became these."""
    table = tables.make_table(folder, Schema(NestedField(1, "id", LongType()), NestedField(2, "amount", LongType())))
    table.append(tables.arrow_rows(table, [{"id": n, "amount": 1} for n in (5, 6)]))
    before = tables.snapshot_of(table)
    table.overwrite(tables.arrow_rows(table, [{"id": n, "amount": amount} for n, amount in amounts.items()]))
    diff = tables.diff(folder, tables.side(table, before), tables.side(table, tables.snapshot_of(table)), key=["id"])
    user = User.objects.get(username="ines")
    row.dataset = row.dataset or datasets.a_dataset("/shop/orders", by=user)
    datasets.write(datasets.a_client(user), row.dataset, total=len(amounts))
    row.after = Transaction.objects.filter(dataset=row.dataset).latest("number")
    row.comparison = Comparison.objects.create(
        identity=uuid4().hex * 2, dataset=row.dataset, state=ComparisonState.READY
    )
    row.save()
    shutil.copytree(diff["folder"], artifact_folder(row.comparison), dirs_exist_ok=True)


def test_a_remark_on_a_row_is_outdated_when_the_row_is_another_and_not_when_others_are(
    reader: Client, pull: PullRequest, home: Path, tmp_path: Path, fork_server: Any
) -> None:
    fork_server.serve(home)
    row = PullDataset.objects.create(pull=pull, path="/shop/orders", change="modified")
    compare_amounts(row, tmp_path / "first", {5: 2, 6: 3})
    say(reader, dataset="/shop/orders", column="amount", **{"key.id": "5"})
    assert Comment.objects.get().picture

    def look() -> list[bool]:
        talk = place_row_talk(row, {31: {"id": 5}}, make.a_person())
        return [remark.is_outdated for remark in talk.threads]

    assert look() == [False]
    compare_amounts(row, tmp_path / "second", {5: 2, 6: 4})
    assert look() == [False]
    compare_amounts(row, tmp_path / "third", {5: 7, 6: 4})
    assert look() == [True]
    compare_amounts(row, tmp_path / "fourth", {5: 1, 6: 4})
    assert look() == [True], "it has no changed row any more"


def without_secret(text: str) -> str:
    """A page without what is another in each answer."""
    return re.sub(r'(name="csrf\w+" value=")\w+', r"\1", text)


def test_rows_that_take_the_place_of_others_are_those_of_the_page(
    reader: Client, pull: PullRequest, home: Path, tmp_path: Path, fork_server: Any
) -> None:
    fork_server.serve(home)
    row = PullDataset.objects.create(pull=pull, path="/shop/orders", change="modified")
    compare_amounts(row, tmp_path / "first", {5: 2, 6: 3})
    say(reader, dataset="/shop/orders", column="amount", **{"key.id": "5"})

    def read(query: str, **headers: str) -> tuple[list[str], int]:
        with CaptureQueriesContext(connection) as asked:
            text = reader.get(f"{PAGE}/data?dataset=/shop/orders{query}", headers=headers).text
        lines = [line.strip() for line in text.partition('<div id="row-diff"')[2].splitlines()]
        return [without_secret(line) for line in lines if line], len(asked)

    in_place = {"HX-Request": "true", "HX-Target": "row-diff"}
    for query in ("", "&change=updated", "&lines=two", "&q=nothing+fits"):
        whole, of_page = read(query)
        part, of_part = read(query, **in_place)
        assert part
        assert whole[: len(part)] == part, query
        assert of_part < of_page / 2
    assert "comment-" in " ".join(read("", **in_place)[0])
    assert read("&show=statistics", **in_place)[0] == [], "other views have no rows"
    history = {"HX-Request": "true", "HX-History-Restore-Request": "true", "HX-Target": "row-diff"}
    assert "<body" in reader.get(f"{PAGE}/data?dataset=/shop/orders", headers=history).text


def test_what_is_asked_for_before_the_click_is_kept_for_a_moment(reader: Client, pull: PullRequest) -> None:
    before = {"HX-Request": "true", "X-Preload": "17"}
    answer = reader.get(f"{PAGE}/commits", headers=before)
    assert set(answer["Cache-Control"].split(", ")) == {"private", "max-age=2"}
    assert {"HX-Request", "HX-Target", "HX-History-Restore-Request", "X-Preload", "Cookie"} <= {
        *answer["Vary"].split(", ")
    }
    assert "Cache-Control" not in reader.get(f"{PAGE}/commits").headers
    refused = reader.get("/r/shop/pulls/999/commits", headers=before)
    assert (refused.status_code, "Cache-Control" in refused.headers) == (404, False)


def test_a_tab_that_comes_in_place_is_that_of_its_address_without_the_frame(reader: Client, pull: PullRequest) -> None:
    headers = {"HX-Request": "true", "HX-History-Restore-Request": "true", "HX-Target": "main"}
    with CaptureQueriesContext(connection) as of_page:
        page = without_secret(reader.get(f"{PAGE}/commits").text)
    with CaptureQueriesContext(connection) as of_tab:
        answer = reader.get(f"{PAGE}/commits", headers=headers)
    assert "HX-Target" in answer["Vary"]
    tab = without_secret(answer.text)
    for begin, end in (("<title>", "</title>"), ('<main id="main"', "</main>"), ('id="inbox"', "</a>")):
        part = tab.partition(begin)[2].partition(end)[0]
        assert part
        assert part == page.partition(begin)[2].partition(end)[0]
    assert not re.search(r'id="repobar"|<script|<footer|class="top"', tab)
    assert len(of_tab) < len(of_page)


def test_remarks_on_columns_stand_below_them_until_the_schema_is_another(
    reader: Client, pull: PullRequest, ines: Principal
) -> None:
    user = User.objects.get(pk=ines.user_id)
    dataset = datasets.a_dataset("/shop/orders", by=user)
    datasets.write(datasets.a_client(user), dataset)
    first = Transaction.objects.get(dataset=dataset)
    row = PullDataset.objects.create(pull=pull, path=dataset.path, dataset=dataset, change="modified", after=first)
    assert say(reader, dataset=dataset.path, column="amount") == f"{PAGE}/schema#{dataset.path}"
    say(reader, dataset=dataset.path, column="gone")
    assert "column gone" in reader.get(f"{PAGE}/schema").content.decode()
    assert 'id="comment-' not in reader.get(f"{PAGE}/data?dataset={dataset.path}").content.decode()
    assert f'href="{PAGE}/schema#{dataset.path}"' in reader.get(PAGE).content.decode()

    def look() -> tuple[dict[str, list[bool]], list[str]]:
        talk = list_column_talk(pull, {dataset.path: ["amount"]}, [row], ines)[dataset.path]
        below = {column: [remark.is_outdated for remark in remarks] for column, remarks in talk.by_column.items()}
        return below, [remark.where for remark in talk.others]

    assert look() == ({"amount": [False]}, ["column gone"])
    Comment.objects.update(quoted="of another schema")
    assert look()[0] == {"amount": [True]}
    Comment.objects.update(quoted=first.pk)
    datasets.write(datasets.a_client(user), dataset, total=2)
    row.after = Transaction.objects.exclude(pk=first.pk).get(dataset=dataset)
    assert look()[0] == {"amount": [False]}, "other rows, the same columns"


def test_strangers_do_neither(client: Client, pull: PullRequest) -> None:
    client.force_login(User.objects.get(pk=make.a_person("nobody").user_id))
    for form, fields in (("remark", {"path": "notes.txt", "line": 2}), ("viewed", {"place": "notes.txt"})):
        assert client.post(f"{PAGE}/{form}", {"body": "x", **fields}).status_code == 404


CELL = {"is_key": False, "before_type": "long", "after_type": "long", "state": "changed", "delta": "+2"}
PICTURE = {
    "compared": "base",
    "change": "updated",
    "cells": [
        {**CELL, "name": "id", "is_key": True, "state": "same", "before": 5, "after": 5, "delta": None},
        {**CELL, "name": "amount", "before": 4711, "after": 4713},
    ],
}


def test_the_conversation_shows_what_threads_are_about_to_who_may_see_it(
    reader: Client, pull: PullRequest, ines: Principal
) -> None:
    make.a_repository("secret", by=make.a_person("mira"))
    for path in ("/shop/orders", "/secret/orders"):
        PullDataset.objects.create(pull=pull, path=path, change="modified")
        about = {"dataset": path, "key": {"id": "5"}, "column": "amount"}
        Comment.objects.create(pull=pull, author_id=ines.user_id, body=f"See {path}[5].", anchor=about, picture=PICTURE)
    say(reader, path="notes.txt", start_line=2, line=3)

    page = reader.get(PAGE).content.decode()
    assert page.count("<del>") == page.count("4713</ins>") == 1
    assert f'href="{PAGE}/data?dataset=/shop/orders&amp;row=5"' in page  # of the anchor, and of the reference
    assert f'{PAGE}/data?dataset=/secret/orders&amp;row=5" rel' not in page
    lines = [line.split("</td>")[0] for line in page.split('<td class="ln">')[1:]]
    assert lines == ["2", "3"]
    comments = reader.get("/api/v1/repositories/shop/pulls/1/comments").json()["results"]
    assert [comment["picture"] and comment["picture"]["change"] for comment in comments] == ["updated", None, None]

    services.delete_comment(comment=Comment.objects.get(pk=comments[0]["id"]), by=ines)
    assert Comment.objects.get(pk=comments[0]["id"]).picture is None


def test_nobody_comments_on_a_dataset_that_they_may_not_see(pull: PullRequest, ines: Principal) -> None:
    make.a_repository("secret", by=make.a_person("mira"))
    PullDataset.objects.create(pull=pull, path="/secret/orders", change="modified")
    with pytest.raises(InvalidInput, match="has no dataset /secret/orders"):
        services.add_comment(pull=pull, body="Hm", by=ines, anchor={"dataset": "/secret/orders"})
