"""What a user acts on is what their page showed: an old page writes about that, or is refused with the typed text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.factories import datasets
from tests.factories import repositories as make
from tests.factories.api_document import read_document
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import User
from webapp.datasets.models import Transaction
from webapp.git.values import Change
from webapp.notices.models import Notification
from webapp.pulls import services
from webapp.pulls.models import Comment, PendingComment, PullDataset, PullRequest, Review
from webapp.repositories import queries as repositories
from webapp.repositories.services import commit_files

if TYPE_CHECKING:
    from django.test import Client

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1"
LINES = [f"line {number}" for number in range(1, 41)]
TEXT = "\n".join(LINES) + "\n"
TYPED = "This is too much, I think."


@pytest.fixture
def pull(ines: Principal, silent_bell: None) -> PullRequest:
    """A pull request that changes line 20 of a file, and whose base has another file that it renames."""
    repository = make.a_repository("shop", by=ines)
    make.a_commit(repository, {"notes.txt": TEXT, "old.txt": TEXT}, by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": edit({20: "TWENTY"})}, branch="feature", by=ines)
    return services.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


@pytest.fixture
def mira(pull: PullRequest) -> Principal:
    """A maintainer."""
    return make.a_member(pull.repository, "maintainer", "mira")


def edit(lines: dict[int, str | None], *, above: int = 0) -> str:
    """The text with lines replaced, removed, and put above all of them."""
    kept = [lines.get(number, line) for number, line in enumerate(LINES, start=1)]
    return "\n".join([*["new"] * above, *(line for line in kept if line is not None)]) + "\n"


def push(pull: PullRequest, files: dict[str, str | None], by: Principal) -> None:
    make.a_commit(pull.repository, files, branch="feature", by=by)
    services.refresh_pull(pull=pull)


def move(pull: PullRequest, source: str, path: str, content: str, by: Principal) -> None:
    change = Change(path=source, move_to=path, content=content.encode())
    commit_files(repository=pull.repository, branch="feature", message="Move", changes=[change], by=by)
    services.refresh_pull(pull=pull)


def talk_of(client: Client, path: str) -> Any:
    return next(one.talk for one in client.get(f"{PAGE}/code").context["files"] if one.file.path == path)


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("kept", [edit({20: "twenty"}), edit({20: "TWENTY"}, above=3), edit({19: None, 20: "TWENTY"})])
def test_comment_from_an_old_page_stays_with_its_line(
    pull: PullRequest, ines: Principal, mira: Principal, kept: str, *, pending: bool
) -> None:
    client = a_client(mira)
    [shown] = set(re.findall(r'name="expected_head" value="(\w+)"', read_page(client, f"{PAGE}/code")))
    push(pull, {"notes.txt": kept}, ines)
    fields = {"path": "notes.txt", "line": 20, "side": "head", "body": TYPED, "expected_head": shown}
    assert client.post(f"{PAGE}/remark", {**fields, **({"pending": "1"} if pending else {})}).status_code == 302

    comment = (PendingComment if pending else Comment).objects.get()
    assert (comment.quoted, comment.seen["commit"]) == ("TWENTY", shown)
    now = kept.split("\n").index("TWENTY") + 1 if "TWENTY" in kept else None
    talk = talk_of(client, "notes.txt")
    assert [place for place, _said in talk.by_line.items()] == ([("head", now)] if now else [])
    assert [(one.where, one.is_outdated) for one in talk.others] == ([] if now else [("line 20", True)])


@pytest.mark.parametrize("address", ["comments", "pending-comments"])
def test_rest_comment_on_an_old_head_is_a_conflict(
    pull: PullRequest, ines: Principal, mira: Principal, address: str
) -> None:
    client, anchor, old = a_rest_client(mira), {"path": "notes.txt", "line": 20, "side": "head"}, pull.head_sha
    body = {"body": TYPED, "anchor": anchor, "expected_head": old}
    assert client.post(f"{REST}/{address}", body, format="json").status_code == 201
    tag = client.get(REST)["ETag"]
    make.a_commit(pull.repository, {"notes.txt": edit({20: "twenty"})}, branch="feature", by=ines)
    answer = client.post(f"{REST}/{address}", body, format="json")
    newest = repositories.get_head(pull.repository, "feature")
    assert (answer.status_code, answer.json()["code"], answer.json()["head"]) == (409, "head_moved", newest)
    services.refresh_pull(pull=pull)
    del body["expected_head"]
    answer = client.post(f"{REST}/{address}", body, format="json", headers={"If-Match": tag})
    assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed")
    assert client.post(f"{REST}/{address}", {**body, "expected_head": newest}, format="json").status_code == 201


def test_suggestion_from_an_old_page_replaces_its_own_line_or_nothing(
    pull: PullRequest, ines: Principal, mira: Principal
) -> None:
    client, old = a_client(mira), pull.head_sha
    body = "```suggestion\ntwenty\n```"
    fields = {"path": "notes.txt", "line": 20, "side": "head", "body": body, "expected_head": old}
    # What is on line 20 now says the same as what was there: it is another line for all that.
    push(pull, {"notes.txt": edit({20: "TWENTY", 5: "TWENTY"}, above=15)}, ines)
    client.post(f"{PAGE}/remark", fields)
    comment = Comment.objects.get()
    services.commit_suggestions(pull=pull, comments=[comment.pk], by=ines)
    text = repositories.read_file(pull.repository, pull.head_sha, "notes.txt").decode()
    assert text == edit({20: "twenty", 5: "TWENTY"}, above=15)
    assert Comment.objects.get().resolved_at is not None

    client.post(f"{PAGE}/remark", fields)
    answer = a_rest_client(ines).post(
        f"{REST}/suggestions", {"comments": [Comment.objects.latest("pk").pk]}, format="json"
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "suggestion_outdated")
    assert repositories.read_file(pull.repository, pull.head_sha, "notes.txt").decode() == text


@pytest.mark.parametrize(
    ("line", "side", "files", "moved_to", "place"),
    [
        (20, "head", {"notes.txt": edit({20: "TWENTY"}, above=1)}, "", ("notes.txt", "head", 21)),
        (20, "head", {"notes.txt": edit({20: "TWENTY", 1: None, 40: None})}, "", ("notes.txt", "head", 19)),
        (20, "head", {"notes.txt": edit({20: "TWENTY"}).replace("\n", "\r\n")}, "", ("notes.txt", "head", 20)),
        (20, "head", {"notes.txt": edit({20: "other"})}, "", None),
        (20, "head", {}, "words.txt", ("words.txt", "head", 22)),
        (20, "base", {}, "words.txt", ("words.txt", "base", 20)),
        (20, "base", {"notes.txt": edit({5: "x", 20: "y"}, above=2)}, "", ("notes.txt", "base", 20)),
    ],
)
def test_comment_follows_its_line(
    pull: PullRequest,
    ines: Principal,
    line: int,
    side: str,
    files: dict[str, str | None],
    moved_to: str,
    place: tuple[str, str, int] | None,
) -> None:
    comment = services.add_comment(
        pull=pull, body="Why?", by=ines, anchor={"path": "notes.txt", "line": line, "side": side}
    )
    if moved_to:
        move(pull, "notes.txt", moved_to, edit({20: "TWENTY"}, above=2), ines)
    else:
        push(pull, files, ines)
    client = a_client(ines)
    found = [
        (file.file.path, *key)
        for file in client.get(f"{PAGE}/code").context["files"]
        for key in (file.talk.by_line if file.talk else ())
    ]
    assert found == ([place] if place else [])
    assert f'id="comment-{comment.pk}"' in read_page(client, f"{PAGE}/code"), "it is on the page in any case"
    listed = a_rest_client(ines).get(f"{REST}/comments/{comment.pk}").json()
    now = {"path": place[0], "line": place[2], "side": place[1]} if place else None
    assert (listed["now"], listed["anchor"]["line"]) == (now, line)


def test_comment_on_the_base_follows_it_when_the_branch_is_updated(pull: PullRequest, ines: Principal) -> None:
    services.add_comment(pull=pull, body="Why?", by=ines, anchor={"path": "notes.txt", "line": 20, "side": "base"})
    make.a_commit(pull.repository, {"notes.txt": edit({}, above=5)}, branch="master", by=ines)
    services.update_branch(pull=pull, by=ines)
    assert list(talk_of(a_client(ines), "notes.txt").by_line) == [("base", 25)]


def test_comment_on_a_file_that_is_no_longer_changed_is_still_shown(pull: PullRequest, ines: Principal) -> None:
    services.add_comment(
        pull=pull, body="Look here.", by=ines, anchor={"path": "notes.txt", "line": 20, "side": "head"}
    )
    push(pull, {"notes.txt": TEXT, "other.txt": "x\n"}, ines)
    page = read_page(a_client(ines), f"{PAGE}/code")
    assert "Look here." in page
    assert "On files that are no longer changed" in page


def test_several_lines_move_together_or_are_outdated(pull: PullRequest, ines: Principal) -> None:
    anchor = {"path": "notes.txt", "start_line": 18, "line": 20, "side": "head"}
    comment = services.add_comment(pull=pull, body="Why?", by=ines, anchor=anchor)
    client = a_rest_client(ines)
    for text, now in (
        (edit({20: "TWENTY"}, above=2), {**anchor, "start_line": 20, "line": 22}),
        (edit({20: "TWENTY"}).replace("line 19\n", "between\nline 19\n"), None),
        (edit({20: "TWENTY", 17: None, 21: "x"}), {**anchor, "start_line": 17, "line": 19}),
    ):
        push(pull, {"notes.txt": text}, ines)
        assert client.get(f"{REST}/comments/{comment.pk}").json()["now"] == now


# ---- rows and columns ----------------------------------------------------------------------------------------------


@pytest.fixture
def row(pull: PullRequest, ines: Principal) -> PullDataset:
    """A dataset of the pull request, with rows on its branch."""
    user = User.objects.get(pk=ines.user_id)
    dataset = datasets.a_dataset("/shop/orders", by=user)
    return PullDataset.objects.create(
        pull=pull, path=dataset.path, dataset=dataset, change="modified", after=write(dataset, user)
    )


def write(dataset: Any, user: User) -> Transaction:
    datasets.write(datasets.a_client(user), dataset)
    return Transaction.objects.filter(dataset=dataset).latest("number")


@pytest.mark.parametrize(
    ("place", "side", "pending"),
    [
        ({"column": "amount"}, "after", False),
        ({"key.id": "5", "column": "amount"}, "before", True),
        ({"key.id": "5"}, "after", True),
        ({}, "before", False),
    ],
)
def test_comment_on_rows_that_have_moved_is_refused_with_its_text(
    row: PullDataset, mira: Principal, ines: Principal, place: dict[str, str], side: str, *, pending: bool
) -> None:
    client = a_client(mira)
    shown = {"expected_transaction": row.after_id, "expected_before": row.before_id or ""}
    newer = write(row.dataset, User.objects.get(pk=ines.user_id))
    PullDataset.objects.filter(pk=row.pk).update(**{side: newer})
    fields = {"dataset": row.path, **place, **shown, "body": TYPED, **({"pending": "1"} if pending else {})}
    answer = client.post(f"{PAGE}/remark", fields)
    assert answer.status_code == 409
    assert TYPED in answer.text
    assert "has other rows" in answer.text
    assert not Comment.objects.exists()
    assert not PendingComment.objects.exists()

    again = {name: value for name, value in read_form(answer.text).items() if name != "csrfmiddlewaretoken"}
    assert again["expected_transaction" if side == "after" else "expected_before"] == newer.pk
    assert client.post(f"{PAGE}/remark", {**again, "body": TYPED}).status_code == 302
    assert (PendingComment if pending else Comment).objects.get().body == TYPED


def read_form(text: str) -> dict[str, str]:
    """The hidden fields of a refused form."""
    form = text.partition('id="refused-form"')[2].partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))


@pytest.mark.parametrize("address", ["comments", "pending-comments"])
def test_rest_comment_on_rows_that_have_moved_is_a_conflict(
    row: PullDataset, mira: Principal, ines: Principal, address: str
) -> None:
    client, old = a_rest_client(mira), row.after_id
    newer = write(row.dataset, User.objects.get(pk=ines.user_id))
    PullDataset.objects.filter(pk=row.pk).update(after=newer)
    for anchor in (
        {"dataset": row.path},
        {"dataset": row.path, "key": {"id": 5}},
        {"dataset": row.path, "column": "x"},
    ):
        body = {"body": TYPED, "anchor": anchor}
        answer = client.post(f"{REST}/{address}", {**body, "expected_transaction": old}, format="json")
        assert (answer.status_code, answer.json()["code"]) == (409, "data_moved")
        assert answer.json()["transaction"] == newer.pk
        answer = client.post(f"{REST}/{address}", {**body, "expected_transaction": newer.pk}, format="json")
        assert answer.status_code == 201


@pytest.mark.parametrize("verdict", ["approve", "reject", "comment"])
def test_review_of_data_that_has_moved_is_refused_with_its_text(
    row: PullDataset, mira: Principal, ines: Principal, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.pulls.services.pulls.refresh_pull", lambda **_more: None)
    client, old = a_client(mira), row.after_id
    page = read_page(client, PAGE)
    fields = dict(
        re.findall(r'name="(expected_\w+)" value="(\w+)"', page.partition("review-form")[2].partition("</form>")[0])
    )
    assert set(fields) == {"expected_head", "expected_target", "expected_data"}
    PullDataset.objects.filter(pk=row.pk).update(after=write(row.dataset, User.objects.get(pk=ines.user_id)))
    answer = client.post(f"{PAGE}/review", {**fields, "verdict": verdict, "body": TYPED})
    assert (answer.status_code, TYPED in answer.text) == (409, True)
    answer = a_rest_client(mira).post(
        f"{REST}/reviews", {"verdict": verdict, "body": TYPED, "expected_transaction": old}, format="json"
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "data_moved")
    assert not Review.objects.exists()


# ---- texts ---------------------------------------------------------------------------------------------------------


def test_second_save_of_a_description_shows_both_texts(pull: PullRequest, ines: Principal, mira: Principal) -> None:
    client = a_client(mira)
    version = re.findall(r'name="expected_version" value="(\w+)"', read_page(client, PAGE))[0]
    a_rest_client(ines).patch(REST, {"body": "Mine, @olek."}, format="json")
    form = {"title": "Change", "body": TYPED, "draft": "0", "expected_version": version}
    answer = client.post(f"{PAGE}/edit", form)
    assert answer.status_code == 409
    assert TYPED in answer.text
    assert "Mine, @olek." in answer.text
    pull.refresh_from_db()
    assert pull.body == "Mine, @olek."

    again = {**read_form(answer.text), "title": "Change", "body": TYPED}
    assert client.post(f"{PAGE}/edit", again).status_code == 302
    pull.refresh_from_db()
    assert pull.body == TYPED


def test_edited_description_is_marked_with_who_and_what_it_said(
    pull: PullRequest, ines: Principal, mira: Principal
) -> None:
    assert "edited" not in read_page(a_client(ines), PAGE).partition('id="opened"')[2].partition("</header>")[0]
    services.update_pull(pull=pull, by=ines, changes={"body": "First."})
    services.update_pull(pull=pull, by=mira, changes={"body": "Second."})
    services.update_pull(pull=pull, by=mira, changes={"body": "Second."})
    page = read_page(a_client(ines), PAGE)
    assert "edited" in page.partition('id="opened"')[2].partition("</header>")[0]
    assert page.count("edited the description") == 2
    versions = read_page(a_client(ines), f"{PAGE}/versions")
    assert "First." in versions
    assert "mira" in versions
    kinds = [
        entry for entry in a_rest_client(ines).get(f"{REST}/timeline").json()["results"] if entry["kind"] == "described"
    ]
    assert [(entry["actor"], entry["data"]["before"]) for entry in kinds] == [("ines", ""), ("mira", "First.")]


def test_newly_mentioned_users_of_a_description_are_told_once(
    pull: PullRequest, ines: Principal, mira: Principal
) -> None:
    olek = make.a_member(pull.repository, "reader", "olek")
    for body in ("For @olek.", "For @olek and @mira.", "For @olek, @mira."):
        services.update_pull(pull=pull, by=ines, changes={"body": body})
    told = Notification.objects.filter(fact="pull_described").order_by("pk").values_list("user_id", "reason")
    assert list(told) == [(olek.user_id, "mentioned"), (mira.user_id, "mentioned")]
    assert "mentioned you in the description" in read_page(a_client(mira), "/inbox")


def test_stale_versions_are_refused_by_rest(pull: PullRequest, ines: Principal, mira: Principal) -> None:
    comment = services.add_comment(pull=pull, body="First.", by=ines)
    pending = services.add_pending(pull=pull, body="First.", by=ines)
    client = a_rest_client(ines)
    for address, name in (
        (REST, "title"), (f"{REST}/comments/{comment.pk}", "body"), (f"{REST}/pending-comments/{pending.pk}", "body"),
    ):  # fmt: skip
        shown = client.get(address) if "pending" not in address else client.get(f"{REST}/pending-comments")
        version = shown.json()["results"][0]["version"] if "pending" in address else shown.json()["version"]
        tag = shown.headers.get("ETag", f'"{version}"')
        assert client.patch(address, {name: "Second."}, format="json", headers={"If-Match": tag}).status_code == 200
        answer = client.patch(address, {name: "Third."}, format="json", headers={"If-Match": tag})
        assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed"), address
        answer = client.patch(address, {name: "Third.", "expected_version": version}, format="json")
        assert (answer.status_code, answer.json()["code"]) == (409, "text_moved"), address
        assert answer.json()["current"][name] == "Second."
    old = client.get(REST)["ETag"]
    push(pull, {"more.txt": "x\n"}, ines)
    assert client.patch(REST, {"title": "x"}, format="json", headers={"If-Match": old}).status_code == 412
    answer = client.patch(REST, {"title": "x", "expected_head": pull.base_sha}, format="json")
    assert (answer.status_code, answer.json()["head"]) == (409, pull.head_sha)
    answer = client.delete(f"{REST}/comments/{comment.pk}", headers={"If-Match": old})
    assert answer.status_code == 412


@pytest.mark.parametrize("act", ["edit", "delete"])
@pytest.mark.parametrize("kind", ["comments", "pending"])
def test_second_save_of_a_comment_shows_both_texts(pull: PullRequest, ines: Principal, act: str, kind: str) -> None:
    client = a_client(ines)
    add = services.add_comment if kind == "comments" else services.add_pending
    comment = add(pull=pull, body="First.", by=ines)
    here = f"{PAGE}/{kind}/{comment.pk}"
    version = re.findall(r'name="expected_version" value="(\w+)"', read_page(client, f"{here}/change"))[0]
    client.post(f"{here}/edit", {"body": "Second.", "expected_version": version})
    answer = client.post(f"{here}/{act}", {"body": TYPED, "expected_version": version})
    assert (answer.status_code, TYPED in answer.text, "Second." in answer.text) == (409, True, True)
    comment.refresh_from_db()
    assert comment.body == "Second."


def test_labels_and_assignees_of_others_stay(pull: PullRequest, ines: Principal, mira: Principal) -> None:
    for name in ("one", "two", "three"):
        services.set_label(repository=pull.repository, name=name, tone="plain", by=ines)
    services.label_pull(pull=pull, labels=["one", "two"], by=ines)
    services.assign_pull(pull=pull, users=["ines"], by=ines)
    client = a_client(mira)
    shown = re.findall(r'name="shown" value="(\w*)"', read_page(client, PAGE))
    assert shown == ["", "ines", "", "one", "two"]
    services.label_pull(pull=pull, labels=["one", "two", "three"], by=ines)
    services.assign_pull(pull=pull, users=["mira", "ines"], by=ines)
    client.post(f"{PAGE}/labels", {"shown": ["", "one", "two"], "label": ["two"]})
    client.post(f"{PAGE}/assignees", {"shown": ["", "ines"], "users": ""})
    assert {row.label.name for row in pull.labels.all()} == {"two", "three"}
    assert {row.user.username for row in pull.assignees.all()} == {"mira"}


OVERWRITES: list[tuple[str, str, str, dict[str, Any] | None]] = [
    ("labels", "post", "labels", {"name": "one", "tone": "plain"}),
    ("members", "post", "members", {"user": "ines", "role": "maintainer"}),
    ("protections", "post", "protections", {"branch": "release", "approvals": 2}),
    ("protections/master", "patch", "protections/master", {"approvals": 2}),
    ("pulls/1", "put", "pulls/1/labels", {"labels": []}),
    ("pulls/1", "put", "pulls/1/assignees", {"users": []}),
    ("", "patch", "", {"description": "New"}),
    ("/notifications/settings", "patch", "/notifications/settings", {"channels": {"mentioned": "inbox"}}),
    ("members", "delete", "members/ines", None),
    ("protections/master", "delete", "protections/master", None),
]


def test_what_was_overwritten_since_is_not_overwritten(pull: PullRequest, mira: Principal) -> None:
    client = a_rest_client(mira)

    def address_of(part: str) -> str:
        return f"/api/v1{part}" if part.startswith("/") else f"/api/v1/repositories/shop/{part}".rstrip("/")

    for number, (read, method, write, body) in enumerate(OVERWRITES):
        tag = client.get(address_of(read))["ETag"]
        for other, part, changed in (
            ("post", "labels", {"name": "first", "tone": ("ok", "bad")[number % 2]}),
            ("patch", "", {"description": f"Other {number}"}),
            ("put", "pulls/1/labels", {"labels": ["first"][(number + 1) % 2 :]}),
            ("patch", "protections/master", {"approvals": number + 3}),
            ("post", "members", {"user": "ines", "role": ("reader", "writer")[number % 2]}),
            ("patch", "/notifications/settings", {"channels": {"mentioned": ("none", "mail")[number % 2]}}),
        ):
            answer = getattr(client, other)(address_of(part), changed, format="json")
            assert answer.status_code in (200, 201), answer.content
        send = getattr(client, method)
        answer = send(address_of(write), body, format="json", headers={"If-Match": tag})
        assert (answer.status_code, answer.json()["code"]) == (412, "precondition_failed"), (method, write)
        tag = client.get(address_of(read))["ETag"]
        answer = send(address_of(write), body, format="json", headers={"If-Match": tag})
        assert answer.status_code in (200, 201, 204), (method, write, answer.content)


# ---- every form and operation --------------------------------------------------------------------------------------

ABOUT_NO_STATE = {
    "comment", "reply", "resolve", "close", "reopen", "reviewers", "build", "compare-again", "compare-cancel",
    "rerun", "discard", "preview", "leave-queue", "retry", "revert", "delete-branch", "restore-branch",
}  # fmt: skip
"""Forms about the pull request, a thread, or what is done with it: nothing that moves is named in them."""
WITHOUT_STATE = {
    "POST checks", "POST builds", "POST close", "POST reopen", "POST revert", "POST restore-branch", "DELETE queue",
    "POST reviewers", "DELETE reviewers", "DELETE pending-comments", "DELETE pending-comments/{pending_id}",
}  # fmt: skip


def test_every_form_names_what_its_page_shows(row: PullDataset, mira: Principal, ines: Principal) -> None:
    services.add_comment(pull=row.pull, body="```suggestion\nx\n```", by=ines, anchor={"path": "notes.txt", "line": 20})
    services.set_label(repository=row.pull.repository, name="one", tone="plain", by=ines)
    own = services.add_comment(pull=row.pull, body="Mine.", by=mira)
    client, forms = a_client(mira), {}
    for tab in ("", "/code", "/data", "/schema", "/checks", "/builds", "/commits", f"/comments/{own.pk}/change"):
        text = client.get(f"{PAGE}{tab}").text
        for head, form in re.findall(r'<form([^>]*method="post"[^>]*)>(.*?)</form>', text, re.DOTALL):
            action = re.search(rf'action="{PAGE}/([^"]+)"', head)
            if action is not None:
                forms[action[1].rpartition("/")[2]] = form
    assert {"remark", "review", "edit", "merge", "suggestions", "viewed", "labels", "assignees"} <= set(forms)
    carried = re.compile(r'name="(expected_\w+|shown|content|looked_at)"')
    assert {name for name, form in forms.items() if not carried.search(form)} <= ABOUT_NO_STATE


def test_every_writing_operation_takes_what_was_shown() -> None:
    here = "/api/v1/repositories/{repo}/pulls/{number}"
    missing, document = set(), read_document()
    for (method, path), operation in document.operations.items():
        if not path.startswith(here) or method == "GET":
            continue
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
        schema = document.raw["components"]["schemas"].get(body.get("$ref", "").rpartition("/")[2], {})
        members = " ".join(schema.get("properties", {}))
        headers = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "header"}
        if "If-Match" not in headers and "expected_" not in members:
            missing.add(f"{method} {path.removeprefix(here).strip('/')}")
    assert missing == WITHOUT_STATE
