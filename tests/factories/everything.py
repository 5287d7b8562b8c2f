"""One of everything that an address of the REST API or of a page can name, and people of every role."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from tests.factories import build_rows, repositories
from tests.factories.api_document import PREFIX
from webapp.accounts.models import User
from webapp.accounts.rules.scopes import SCOPES
from webapp.accounts.services import create_token, grant_role
from webapp.builds.models import Job
from webapp.datasets.queries import find_dataset, list_deleted_branches
from webapp.datasets.services import create_branch, delete_branch, open_transaction
from webapp.pulls.models import PullDataset
from webapp.pulls.services import open_pull
from webapp.repositories.services import add_webhook

ROLES = ("nobody", "reader", "writer", "maintainer", "admin")
NO_PAGES = ("api/", "git/", "^iceberg", "events/", "static/")


@dataclass
class World:
    """One of everything that an address can name."""

    values: dict[str, Any]
    users: dict[str, User]
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    own_token: dict[str, int] = field(default_factory=dict)
    """A token that each role may revoke."""

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
    made = build_rows.a_world("shop")
    repository, maker = made.repository, made.maker
    made.branch("fix")
    commit = repositories.a_commit(repository, {"notes.md": "a\n"}, branch="fix")
    made.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]), branch="fix")
    pull = open_pull(repository=repository, title="Fix", source="fix", target="master", by=maker)
    build = made.start("/shop/clean", branch="fix", force=True)
    dataset = find_dataset("/shop/raw")
    assert dataset is not None
    PullDataset.objects.create(pull=pull, path="/shop/raw", dataset=dataset, change="modified")
    opened = open_transaction(dataset=dataset, branch="fix", type="APPEND", by=maker)
    create_branch(dataset=dataset, name="old", parent="master", by=maker)
    delete_branch(dataset=dataset, name="old", by=maker)
    webhook = add_webhook(repository=repository, url="https://example.org/hook", events=["push"], secret="", by=maker)
    users = {role: User.objects.create_user(f"a-{role}", is_superuser=role == "admin") for role in ROLES}
    for role in ROLES[1:4]:
        grant_role(repository="shop", user=users[role], role=role, by=None)
    world = World(
        users=users,
        values={
            "repo": "shop", "branch": "master", "sha": commit.sha, "path": "pipeline.toml", "username": "a-reader",
            "number": pull.number, "webhook": webhook.pk, "dataset_id": dataset.pk, "build_id": build.pk,
            "job_id": Job.objects.filter(build=build).values_list("pk", flat=True).get(),
            "transaction": opened.pk, "token_id": 0, "name": "shop", "comment_id": 0,
            "deleted_id": list_deleted_branches(dataset)[0].pk,
            "rest": "master/pipeline.toml", "own_branch": "fix",
        },
    )  # fmt: skip
    for role, scope in itertools.product(ROLES, ("", *SCOPES)):
        world.secrets[role, scope] = create_token(user=users[role], name="matrix", scopes=[scope] if scope else [])[1]
    for role, scope in itertools.product(ROLES, ("", *SCOPES)):
        repositories.a_branch(repository, f"of-{role}-{scope}")
        world.own_token[role] = create_token(user=users[role], name="to be revoked")[0].pk
    return world


def list_pages(found: Any = None, prefix: str = "") -> Iterator[str]:
    """Every address of a page, as Django writes it."""
    for pattern in (found or get_resolver()).url_patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from list_pages(pattern, address)
        elif isinstance(pattern, URLPattern) and not address.startswith(NO_PAGES):
            yield "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", address)
