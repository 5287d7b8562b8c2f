"""Every form of a page with fields that it takes, in an order in which all succeed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import resolve

from tests.factories import build_rows
from tests.factories.everything import CHECK, World, add_check, list_pages
from webapp.accounts.models import ProviderIdentity, Token, User
from webapp.accounts.queries import principal_for_user
from webapp.builds.models import Build
from webapp.builds.queries.drafts import sign_draft
from webapp.builds.rules.states import BuildState
from webapp.builds.runner.paths import uploads_folder
from webapp.core import clock
from webapp.datasets.queries import get_dataset, list_deleted_branches, list_transactions
from webapp.git.values import Change, Person
from webapp.notices.rules.facts import Reason
from webapp.pulls.models import Comment, Merge, PendingComment, PullRequest
from webapp.pulls.queries.lines import read_lines
from webapp.pulls.queries.pulls import list_changes
from webapp.pulls.services import refresh_pull
from webapp.repositories.models import Repository
from webapp.repositories.queries import get_head
from webapp.repositories.rules.states import PublicationState
from webapp.repositories.services import set_publication

PASSWORD = "a-password-of-forms-1"
DAY = {"color_mode": "auto", "light_theme": "light", "dark_theme": "dark"}


@dataclass
class Form:
    """A form that is sent, and the entry that it leaves."""

    address: str
    fields: dict[str, Any]
    verb: str
    object: str
    query: str = ""
    by: str = "a-admin"
    prepare: Callable[[], dict[str, Any]] = field(default=dict)
    """More fields, of what there is only now."""


def list_forms(world: World) -> Iterator[Form]:
    """Each form, in an order in which all succeed."""
    # Pull requests find their datasets anew as soon as anything moves, and these are no build's.
    here, compared = f"/r/shop/pulls/{world.values['number']}", {"dataset": "/shop/raw"}
    yield Form(f"{here}/compare-again", compared, "rerun_comparison", "/shop/raw")
    yield Form(f"{here}/compare-cancel", compared, "cancel_comparison", "/shop/raw")
    rejected = {**compared, "verdict": "rejected", "reason": "Too few."}
    yield Form(f"{here}/verdict", rejected, "judge_dataset", "shop#")
    yield Form(f"{here}/verdict", {**compared, "verdict": "none"}, "judge_dataset", "shop#")
    yield from list_account_forms(world)
    yield from list_dataset_forms(world)
    yield from list_build_forms(world)
    yield from list_repository_forms()
    yield from list_pull_forms(world)
    yield Form("/r/shop/sql", {"branch": "master", "sql": "SELECT * FROM raw"}, "run_query", "shop")
    check = {"branch": "master", "sql": "SELECT * FROM raw", "name": "rows", "expects": "rows > 0"}
    yield Form("/r/shop/sql/save", {**check, "new_branch": "checks"}, "commit_files", "shop")
    yield Form(f"/r/shop/sql/{world.values['query_id']}/cancel", {}, "cancel_query", "shop")
    file = "pipelines/new.py"
    typed = {
        "source": "",
        "path": file,
        "content": "X = 1\n",
        "head": get_head(Repository.objects.get(name="shop"), "fix"),
    }
    yield Form(f"/r/shop/preview/fix/{file}", typed, "preview_code", "shop")
    yield Form(f"/r/shop/previews/{world.own_preview['admin']}/cancel", {}, "cancel_preview", "shop")
    yield Form("/r/shop/settings/delete", {"name": "shop"}, "delete_repository", "shop")


def list_account_forms(world: World) -> Iterator[Form]:
    new = {"password": PASSWORD}
    mira = {"username": "mira", **new}
    yield Form("/settings/users", mira, "create_user", "mira")
    yield Form("/settings/users/mira", {"act": "password", **new}, "set_password", "mira")
    yield Form("/settings/users/mira", {"act": "deactivate"}, "deactivate_user", "mira")
    yield Form("/settings/users/mira", {"act": "activate"}, "activate_user", "mira")
    yield Form("/login", mira, "sign_in", "mira", by="mira")
    changed = {"current": PASSWORD, "password": f"{PASSWORD}-new", "repeated": f"{PASSWORD}-new"}
    yield Form("/settings/password", changed, "set_password", "mira", by="mira")
    yield Form("/settings", DAY, "set_preferences", "mira", by="mira")
    wishes = {reason.value: reason.channel for reason in Reason}
    yield Form("/settings/notifications", wishes, "set_notifications", "mira", by="mira")
    yield Form("/inbox/mark", {"all": "1", "state": "read"}, "mark_notifications", "mira", by="mira")
    yield Form("/settings/sessions/end", {"others": "1"}, "end_sessions", "mira", by="mira")
    yield Form("/settings/profile/unlink", {}, "unlink_identity", "mira", by="mira", prepare=link_mira)
    token = world.own_token["admin"]
    yield Form("/settings/tokens", {"name": "notebook", "days": "7"}, "create_token", "notebook", by="mira")
    yield Form(f"/settings/tokens/{token}/revoke", {}, "revoke_token", Token.objects.get(pk=token).name)
    yield Form("/logout", {}, "sign_out", "mira", by="mira")


def link_mira() -> dict[str, Any]:
    ProviderIdentity.objects.create(user=User.objects.get(username="mira"), issuer="https://id.example", subject="mira")
    return {}


def list_repository_forms() -> Iterator[Form]:
    here, file = "/r/shop", "fix/notes.md"
    yield Form(f"{here}/watch", {"watch": "1"}, "watch", "shop")
    yield Form("/repositories/new", {"name": "second", "template": "empty"}, "create_repository", "second")
    yield Form(f"{here}/settings", {"form": "description", "description": "New"}, "update_repository", "shop")
    member = {"form": "member", "member-user": "mira", "member-role": "writer"}
    yield Form(f"{here}/settings", member, "grant_role", "shop")
    yield Form(f"{here}/settings/members/remove", {"user": "mira"}, "grant_role", "shop")
    rules = {"form": "protection", "protection-branch": "release", "protection-approvals": "2"}
    yield Form(f"{here}/settings", rules, "set_protection", "shop")
    yield Form(f"{here}/settings/protections/remove", {"branch": "master"}, "remove_protection", "shop")
    hook = {
        "form": "webhook",
        "webhook-url": "https://example.org/other",
        "webhook-events": ["push"],
        "webhook-shape": "slack",
    }
    yield Form(f"{here}/settings", hook, "add_webhook", "shop")
    yield Form(f"{here}/settings/webhooks/remove", {}, "remove_webhook", "shop", prepare=find_webhook)
    commit = {"message": "Say more", "target": "direct", "content": "b\n"}
    yield Form(f"{here}/new/fix", {**commit, "path": "more.md"}, "commit_files", "shop", prepare=find_head)
    yield Form(f"{here}/edit/{file}", {**commit, "path": "notes.md"}, "commit_files", "shop", prepare=find_head)
    other = {**commit, "path": "notes.md", "target": "new", "branch": "other", "content": "c\n"}
    yield Form(f"{here}/edit/{file}", other, "commit_files", "shop", prepare=find_head)
    yield Form(f"{here}/delete/fix/more.md", commit, "commit_files", "shop", prepare=find_head)
    yield Form(f"{here}/branches", {"name": "spare", "start_point": "master"}, "create_branch", "shop")
    yield Form(f"{here}/branches/delete", {"name": "spare", "data": "delete"}, "delete_branch", "shop")
    back = {"name": "spare", "parent": "master"}
    yield Form(f"{here}/branches/restore", back, "restore_branch", "shop", prepare=find_head)


def find_webhook() -> dict[str, Any]:
    return {"webhook": Repository.objects.get(name="shop").webhooks.latest("pk").pk}


def find_head() -> dict[str, Any]:
    return {"head": get_head(Repository.objects.get(name="shop"), "fix")}


def list_dataset_forms(world: World) -> Iterator[Form]:
    number, by = world.values["dataset_id"], principal_for_user(world.users["admin"])
    here = f"/datasets/{number}"

    def find_deleted() -> dict[str, Any]:
        return {"deleted": list_deleted_branches(get_dataset(by, number))[0].pk}

    def find_open() -> dict[str, Any]:
        return {"transaction": list_transactions(get_dataset(by, number), branch="side")[0].pk}

    yield Form(f"{here}/watch", {}, "unwatch", "/shop/raw")
    yield Form("/datasets/new", {"path": "/shop/fresh"}, "create_dataset", "/shop/fresh")
    yield Form(f"{here}/branches", {"name": "side"}, "create_dataset_branch", "/shop/raw@side")
    yield Form(
        f"{here}/branches/parent", {"name": "side", "parent": "master"}, "set_dataset_branch_parent", "/shop/raw@side"
    )
    yield Form(f"{here}/branches/delete", {"name": "side"}, "delete_dataset_branch", "/shop/raw@side")
    yield Form(f"{here}/branches/restore", {}, "restore_dataset_branch", "/shop/raw@side", prepare=find_deleted)
    for act in ("commit", "abort"):
        started = {"branch": "side", "type": "APPEND"}
        yield Form(f"{here}/transactions", started, "open_transaction", "/shop/raw")
        yield Form(f"{here}/transactions/{act}", {}, f"{act}_transaction", "/shop/raw", prepare=find_open)
    ends = {"from": "", "to": "", "branch": "master"}
    yield Form(f"{here}/compare/again", ends, "rerun_comparison", "/shop/raw")
    yield Form(f"{here}/compare/cancel", ends, "cancel_comparison", "/shop/raw")
    row = {"branch": "master", "key.id": "1"}
    yield Form(f"{here}/blame/again", row, "rerun_comparison", "/shop/raw")


def list_build_forms(world: World) -> Iterator[Form]:
    build = world.values["build_id"]
    order = {"repository": "shop", "branch": "fix", "target": ["/shop/clean"], "force": "1"}
    yield Form(f"/builds/{build}/cancel", {}, "cancel_build", f"build {build}")
    yield Form(f"/builds/{build}/retry", {}, "retry_build", "build ")
    yield Form("/builds/new", order, "start_build", "build ")
    place = {"dataset": "/shop/raw", "branch": "side"}
    file = SimpleUploadedFile("rows.csv", b"id\n1\n")
    yield Form("/upload", {"file": file, **place}, "send_file", "rows.csv")
    yield Form(f"/upload/{sign_sent_file(world)}", place, "upload", "build ")


def sign_sent_file(world: World) -> str:
    [sent] = uploads_folder().glob("draft-*")
    by = principal_for_user(world.users["admin"])
    return sign_draft(file=sent.name, name="rows.csv", file_format="csv", by=by)


def list_pull_forms(world: World) -> Iterator[Form]:
    number = world.values["number"]
    here, pull = f"/r/shop/pulls/{number}", f"shop#{number}"

    yield Form(f"{here}/comment", {"body": "Why?"}, "comment", pull)
    line = {"body": "Why this?", "path": "notes.md", "line": "1", "side": "head"}
    yield Form(f"{here}/remark", line, "comment", pull)
    yield Form(f"{here}/comments/{{comment}}/resolve", {"resolved": "1"}, "resolve_comment", pull)
    yield Form(f"{here}/comments/{{comment}}/resolve", {"resolved": "0"}, "unresolve_comment", pull)
    yield Form(f"{here}/comments/{{comment}}/edit", {"body": "Why that?"}, "edit_comment", pull)
    yield Form(f"{here}/comments/{{comment}}/delete", {}, "delete_comment", pull)
    yield Form(f"{here}/comments/{{comment}}/reply", {"body": "Because."}, "comment", pull)
    yield Form(f"{here}/remark", {**line, "pending": "1"}, "pend_comment", pull)
    yield Form(f"{here}/pending/{{pending}}/edit", {"body": "Why that?"}, "edit_pending_comment", pull)
    yield Form(f"{here}/pending/{{pending}}/delete", {}, "delete_pending_comment", pull)
    yield Form(f"{here}/pending/discard", {}, "discard_review", pull)
    yield Form("/r/shop/labels/set", {"name": "urgent", "tone": "bad"}, "set_label", "shop")
    yield Form(f"{here}/labels", {"label": "urgent"}, "label_pull", pull)
    yield Form(f"{here}/assignees", {"users": "a-reader"}, "assign_pull", pull)
    yield Form("/r/shop/labels/remove", {"name": "urgent"}, "remove_label", "shop")
    yield Form(f"{here}/reviewers", {"name": "a-reader"}, "ask_reviewers", pull)
    yield Form(f"{here}/reviewers", {"user": "a-reader", "unask": "1"}, "unask_reviewers", pull)
    yield Form(f"{here}/suggestions", {}, "commit_files", "shop", prepare=suggest_change)
    seen = {"place": "notes.md", "content": "1"}
    yield Form(f"{here}/viewed", {**seen, "viewed": "1"}, "mark_viewed", pull)
    yield Form(f"{here}/viewed", seen, "unmark_viewed", pull)
    yield Form(f"{here}/review", {"verdict": "comment", "body": "Good."}, "review_pull", pull)
    load_file(world)
    yield Form(f"{here}/load", {"dataset": "/shop/loaded", "load": "1"}, "choose_load", pull)
    yield Form(f"{here}/checks/rerun", {"name": CHECK}, "rerun_check", pull, prepare=give_check)
    yield Form(f"{here}/edit", {"title": "Better"}, "update_pull", pull)
    yield Form(f"{here}/close", {}, "close_pull", pull)
    yield Form(f"{here}/reopen", {}, "reopen_pull", pull)
    yield Form(f"{here}/build", {"sides": ["head"], "scope": "modified"}, "start_build", "build ")
    opened = {"title": "Another"}
    yield Form("/r/shop/pulls/new", opened, "open_pull", f"shop#{number + 1}", query="?source=other&target=master")
    yield Form(f"{here}/update", {}, "commit_files", "shop", prepare=move_master)
    yield Form(f"{here}/conflicts", {}, "commit_files", "shop", prepare=make_conflict)
    merge = {"method": "merge", "rebuild": "modified"}
    queue, leave = (f"/r/shop/pulls/{number + 1}/{act}" for act in ("queue", "leave-queue"))
    yield Form(queue, merge, "queue_merge", f"shop#{number + 1}", prepare=publish_other)
    yield Form(leave, {}, "leave_queue", f"shop#{number + 1}")
    yield Form(f"/r/shop/pulls/{number + 1}/merge", merge, "merge_pull", f"shop#{number + 1}", prepare=publish_other)
    yield Form(f"/r/shop/pulls/{number + 1}/retry", {}, "retry_build", "build ", prepare=fail_rebuild)
    yield Form(f"/r/shop/pulls/{number + 1}/revert", {}, "revert_pull", f"shop#{number + 1}")
    yield Form(f"/r/shop/pulls/{number + 1}/delete-branch", {}, "delete_branch", "shop")
    yield Form(f"/r/shop/pulls/{number + 1}/restore-branch", {}, "restore_branch", "shop")


def load_file(world: World) -> None:
    """Load a file on the branch of the pull request, before anybody looks at the entries."""
    pull = PullRequest.objects.get(repository__name="shop", number=world.values["number"])
    build_rows.an_upload("/shop/loaded", branch=pull.source, by=world.users["admin"])
    refresh_pull(pull=pull)


def give_check() -> dict[str, Any]:
    """Give the pull request a check behind the server's back, which has gone with the last look at its head."""
    add_check(PullRequest.objects.filter(repository__name="shop").order_by("number")[0])
    return {}


def suggest_change() -> dict[str, Any]:
    """Suggest a change of a file behind the server's back: no entry tells of it."""
    pull = PullRequest.objects.filter(repository__name="shop").order_by("number")[0]
    refresh_pull(pull=pull)
    [path] = [file.path for file in list_changes(pull).files][:1]
    anchor = {"path": path, "line": 1, "side": "head"}
    body = f"```suggestion\n{token_hex()}\n```"
    lines = read_lines(pull, anchor)
    comment = Comment(pull=pull, author=pull.author, body=body, anchor=anchor, quoted=lines.text if lines else "")
    comment.save()
    return {"comments": [comment.pk]}


def move_master() -> dict[str, Any]:
    """Give master a commit behind the server's back: no entry tells of it."""
    return {"expected_target": write_file("master", "moved.md")}


def make_conflict() -> dict[str, Any]:
    """Give both branches another version of a file."""
    heads = {name: write_file(branch, "both.md") for name, branch in (("target", "master"), ("head", "fix"))}
    return {"path-1": "both.md", "take-1": "ours", **{f"expected_{name}": sha for name, sha in heads.items()}}


def write_file(branch: str, path: str) -> str:
    git = Repository.objects.get(name="shop").git
    change = Change(path=path, content=token_hex().encode())
    author = Person(name="m", email="m@example.org")
    return git.commit_changes(branch=branch, message="Go on\n", changes=[change], author=author).sha


def publish_other() -> dict[str, Any]:
    repository = Repository.objects.get(name="shop")
    set_publication(
        repository=repository, branch="other", sha=get_head(repository, "other"), status=PublicationState.PUBLISHED
    )
    return {}


def fail_rebuild() -> dict[str, Any]:
    """Give the newest merge a rebuild that failed."""
    merge = Merge.objects.latest("pk")
    repository, by = merge.pull.repository, merge.merged_by
    order = {"repository": repository, "branch": "master", "chain": ["master"], "targets": ["/shop/clean"]}
    merge.build = Build.objects.create(**order, by=by, state=BuildState.FAILED, finished_at=clock.now())
    merge.save(update_fields=["build"])
    return {}


def name_of(address: str) -> str:
    return str(resolve(address).url_name)


def send(form: Form) -> Any:
    client = Client()
    newest = {
        name: model.objects.order_by("pk").values_list("pk", flat=True).last() or 0
        for name, model in (("comment", Comment), ("pending", PendingComment))
    }
    address = form.address.format(**newest)
    if form.verb != "sign_in":
        client.force_login(User.objects.get(username=form.by))
    return client.post(address + form.query, {**form.fields, **form.prepare()})


WITHOUT_ACT = {"tour-end", "pull-preview"}
"""Forms of which the installation keeps nothing: a cookie, and what a text will look like."""


def list_form_names(world: World) -> set[str]:
    """The pages that take POST, by their names: nobody who is signed out changes anything, so all can be asked."""
    addresses = [world.address(path) for path in list_pages()]
    return {name_of(path) for path in addresses if Client().post(path).status_code != 405} - WITHOUT_ACT
