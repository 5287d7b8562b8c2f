"""One of everything that an address of the REST API or of a page can name, and people of every role."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import URLPattern, URLResolver, get_resolver

from tests.factories import build_rows, datasets, repositories
from tests.factories.api_document import PREFIX, read_document
from webapp.accounts.models import ProvidedMembership, ProviderIdentity, User, UserSession
from webapp.accounts.rules.scopes import SCOPES
from webapp.accounts.services import create_token, grant_role
from webapp.builds.models import Job
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.services import request_comparison
from webapp.datasets.queries import list_deleted_branches
from webapp.datasets.services import create_branch, delete_branch, open_transaction
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.pulls.models import Label, PendingComment, PullCheck, PullDataset, PullRequest
from webapp.pulls.services import add_comment, edit_comment, open_pull
from webapp.repositories.models import Repository
from webapp.repositories.services import add_webhook, report_status
from webapp.sql.models import Query

ROLES = ("nobody", "reader", "writer", "maintainer", "admin")
NO_PAGES = ("api/", "git/", "^iceberg", "events/", "static/")

REPOSITORY = f"{PREFIX}/repositories/{{repo}}"
PULL = f"{REPOSITORY}/pulls/{{number}}"
DATASET = f"{PREFIX}/datasets/{{dataset_id}}"
CHECK = "checks/rows"
"""Name of the check of the pull request that is a query."""


class Upload(dict[str, Any]):
    """A form with a file."""


BODIES: dict[str, Any] = {
    f"POST {PREFIX}/builds": {"branch": "fix", "targets": ["/shop/clean"]},
    f"POST {PREFIX}/datasets": {"path": "/new-folder/new"},
    f"POST {PREFIX}/groups": {"name": "g", "users": []},
    f"POST {PREFIX}/users": {"username": "somebody", "password": "a-long-enough-secret"},
    f"POST {PREFIX}/notifications/mark": {"state": "read"},
    f"POST {DATASET}/branches": {"name": "more", "parent": "master"},
    f"PATCH {DATASET}/branches/{{branch}}": {"parent": "master"},
    f"POST {DATASET}/transactions": {"branch": "fix", "type": "APPEND"},
    f"POST {REPOSITORY}/branches": {"name": "more", "start_point": "master"},
    f"POST {REPOSITORY}/commits": {"branch": "fix", "message": "m", "changes": [{"path": "a", "content": "b"}]},
    f"POST {REPOSITORY}/commits/{{sha}}/statuses": {"name": "tests", "state": "success"},
    f"POST {REPOSITORY}/lint": {"path": "notes.md", "text": "x"},
    f"POST {REPOSITORY}/members": {"user": "a-nobody", "role": "reader"},
    f"POST {REPOSITORY}/protections": {"branch": "fix"},
    f"POST {REPOSITORY}/previews": {"branch": "fix", "file": "a.py"},
    f"POST {REPOSITORY}/pulls": {"title": "t", "source": "fix", "target": "master"},
    f"POST {REPOSITORY}/queries": {"branch": "fix", "sql": 'SELECT * FROM "/shop/raw"'},
    f"POST {REPOSITORY}/webhooks": {"url": "https://example.org/h", "events": ["push"]},
    f"POST {PULL}/comments": {"body": "b"},
    f"PATCH {PULL}/comments/{{comment_id}}": {"resolved": True},
    f"POST {PULL}/suggestions": {"comments": [1]},
    f"POST {PULL}/pending-comments": {"body": "b"},
    f"POST {REPOSITORY}/labels": {"name": "urgent", "tone": "bad"},
    f"PUT {PULL}/labels": {"labels": ["data"]},
    f"PUT {PULL}/assignees": {"users": ["a-reader"]},
    f"POST {PULL}/reviewers": {"users": ["a-reader"]},
    f"PATCH {PULL}/pending-comments/{{pending_id}}": {"body": "c"},
    f"POST {PULL}/reviews": {"verdict": "comment", "body": "b"},
    f"POST {PULL}/datasets/{{dataset_id}}/verdict": {"verdict": "accepted"},
    f"POST {PULL}/uploads": {"dataset": "/shop/raw", "load": True},
    f"POST {PULL}/checks": {"name": CHECK},
    f"POST {DATASET}/upload": Upload(file=SimpleUploadedFile("rows.csv", b"id\n1\n")),
}
"""Where an empty object would be refused for what it lacks, before anybody is asked for a right."""
QUERIES = {f"{DATASET}/upload": "?branch=fix"}


@dataclass
class World:
    """One of everything that an address can name."""

    values: dict[str, Any]
    users: dict[str, User]
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    own_token: dict[str, int] = field(default_factory=dict)
    """A token that each role may revoke."""
    own_session: dict[str, int] = field(default_factory=dict)
    """A session that each role may end."""
    own_pending: dict[str, int] = field(default_factory=dict)
    """A comment that each role keeps for its review."""
    own_preview: dict[str, int] = field(default_factory=dict)
    """A preview of code that each role has asked for."""

    def address(self, path: str) -> str:
        """An operation's path with its variables filled in."""
        webhook = "/webhooks/" in path
        changed = {"number": self.values["webhook"]} if webhook else {}
        if path.endswith("/branches/{branch}"):
            changed["branch"] = "fix" if path.startswith(f"{PREFIX}/datasets/") else self.values["own_branch"]
        values = {**self.values, **changed}
        return re.sub(r"\{(\w+)\}", lambda match: str(values[match.group(1)]), path)

    def bearer(self, role: str, scope: str) -> dict[str, str]:
        """The header of a token of somebody with a role; `scope` "" is a token without any."""
        return {"Authorization": f"Bearer {self.secrets[role, scope]}"}


def make_world() -> World:
    """Make one of everything, and people of every role with tokens of every scope."""
    shop = build_rows.a_world("shop", raw=())
    repository, maker = shop.repository, shop.maker
    dataset = datasets.a_dataset("/shop/raw", by=shop.user)
    write_rows(shop.user, "shop.raw")
    shop.branch("fix")
    commit = repositories.a_commit(repository, {"notes.md": "a\n"}, branch="fix")
    shop.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]), branch="fix")
    pull = open_pull(repository=repository, title="Fix", source="fix", target="master", by=maker)
    add_check(pull)
    comment = add_comment(pull=pull, body="Why", by=maker)
    edit_comment(comment=comment, body="Why?", by=maker)
    report_status(repository=repository, sha=commit.sha, name="lint", result="success", by=maker)
    build = shop.start("/shop/clean", branch="fix", force=True)
    *_, before, after = dataset.transactions.filter(branch_name="master", state="COMMITTED").order_by("number")
    rows = {"before": before, "after": after}
    comparison = request_comparison(dataset=dataset, rules=ComparisonRules(), by=None, **rows)
    PullDataset.objects.create(
        pull=pull, path="/shop/raw", dataset=dataset, change="modified", comparison=comparison, **rows
    )
    opened = open_transaction(dataset=dataset, branch="fix", chain=("master",), type="APPEND", by=maker)
    create_branch(dataset=dataset, name="old", parent="master", by=maker)
    delete_branch(dataset=dataset, name="old", by=maker)
    webhook = add_webhook(repository=repository, url="https://example.org/hook", events=["push"], secret="", by=maker)
    query = Query.objects.create(repository=repository, by=shop.user, branch="fix", sql="SELECT 1")
    users = {role: User.objects.create_user(f"a-{role}", is_superuser=role == "admin") for role in ROLES}
    for role in ROLES[1:4]:
        grant_role(repository="shop", user=users[role], role=role, by=None)
    world = World(
        users=users,
        values={
            "repo": "shop", "branch": "master", "sha": commit.sha, "path": "pipeline.toml", "username": "a-reader",
            "number": pull.number, "webhook": webhook.pk, "dataset_id": dataset.pk, "build_id": build.pk,
            "job_id": Job.objects.filter(build=build).values_list("pk", flat=True).get(),
            "transaction": opened.pk, "token_id": 0, "session_id": 0, "name": "shop", "label": "data", "comment_id": comment.pk,
            "query_id": query.pk, "deleted_id": list_deleted_branches(dataset)[0].pk,
            "rest": "master/pipeline.toml", "own_branch": "fix", "draft": "none", "notification": 0,
        },
    )  # fmt: skip
    for role, scope in itertools.product(ROLES, ("", *SCOPES)):
        world.secrets[role, scope] = create_token(user=users[role], name="matrix", scopes=[scope] if scope else [])[1]
    for role, scope in itertools.product(ROLES, ("", *SCOPES)):
        repositories.a_branch(repository, f"of-{role}-{scope}")
        world.own_token[role] = create_token(user=users[role], name="to be revoked")[0].pk
        world.own_session[role] = UserSession.objects.update_or_create(user=users[role], session_key=role)[0].pk
    ProviderIdentity.objects.create(user=users["reader"], issuer="https://id.example", subject="a-reader")
    ProvidedMembership.objects.create(user=users["reader"], group=Group.objects.create(name="of the provider"))
    Label.objects.create(repository=repository, name="data", tone="ok")
    for role, user in users.items():
        world.own_pending[role] = PendingComment.objects.create(pull=pull, author=user, body="b").pk
        world.own_preview[role] = add_preview(repository, user, head=commit.sha).pk
    world.values |= {"pending_id": world.own_pending["reader"], "preview_id": world.own_preview["writer"]}
    return world


def add_check(pull: PullRequest) -> None:
    """Give a pull request a check that none of its files is: it is there until the head is looked at."""
    fields = {"head_sha": pull.head_sha, "expects": "empty", "sql": "SELECT 1"}
    PullCheck.objects.get_or_create(pull=pull, name=CHECK, defaults=fields)


def add_preview(repository: Repository, user: User, *, head: str) -> CodePreview:
    """Write a preview that came to nothing."""
    file = "pipelines/a.py"
    drafts = [{"path": "", "target": file, "text": "X = 1\n"}]
    ended = {"state": PreviewState.FAILED, "code": "no_transform", "error": f"{file} declares no transform."}
    return CodePreview.objects.create(
        repository=repository, by=user, branch="fix", head=head, file=file, drafts=drafts, **ended
    )


def write_rows(user: User, table: str) -> None:
    """Give a table columns and rows, by two commits of a client."""
    import pyarrow as pa

    rows = pa.table({"id": [1, 2], "name": ["a", None], "amount": [1.5, -0.0], "tags": [["x"], []]})
    client = datasets.a_pyiceberg(user).load_table(table)
    with client.update_schema() as update:
        update.union_by_name(rows.schema)
    client.append(rows)
    client.append(rows)


def write_route(route: str) -> str:
    """Return a route of Django's as an address with the names of what it takes."""
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route)


def list_pages(found: Any = None, prefix: str = "") -> Iterator[str]:
    """Every address of a page, as Django writes it."""
    for pattern in (found or get_resolver()).url_patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from list_pages(pattern, address)
        elif isinstance(pattern, URLPattern) and not address.startswith(NO_PAGES):
            yield write_route(address)


def list_operations() -> list[tuple[str, str]]:
    """Every operation; what removes things last, since Git takes no part in the rollback of the database."""
    return sorted(read_document().operations, key=lambda item: (item[0] == "DELETE", item[1], item[0]))


def fill_endpoint(path: str) -> str:
    """The address of an endpoint of the catalog, of the table of the world."""
    values = {"namespace": "shop", "table": "raw", "view": "v", "plan-id": "p"}
    return "/iceberg" + re.sub(r"\{([\w-]+)\}", lambda match: values[match.group(1)], path.replace("/{prefix}", ""))
