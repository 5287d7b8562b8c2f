"""Lists of REST and of pages while others insert and delete between two pages."""

from __future__ import annotations

import html
import re
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group

from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client
from webapp.accounts.models import User
from webapp.builds.models import Build
from webapp.datasets.models import Dataset
from webapp.git.values import Change
from webapp.notices.models import Notification
from webapp.notices.rules.facts import Reason
from webapp.pulls import services
from webapp.pulls.models import Label, PullRequest
from webapp.repositories.models import Repository
from webapp.repositories.services import commit_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
API = "/api/v1"
SHOP = f"{API}/repositories/shop"
PULL = f"{SHOP}/pulls/1"
COUNT = 7


class World:
    """A repository in which everything is added and removed."""

    def __init__(self) -> None:
        self.ines: Principal = make.a_person("ines", is_admin=True)
        self.user = User.objects.get(pk=self.ines.user_id)
        self.repository = make.a_repository("shop", by=self.ines)
        make.a_branch(self.repository, "feature", by=self.ines)
        self.add_file("f0.txt")
        self.pull = services.open_pull(
            repository=self.repository, title="One", source="feature", target="master", by=self.ines
        )
        self.numbers = count(100)

    def add_file(self, name: str) -> None:
        change = Change(path=name, content=b"x\n")
        commit_files(repository=self.repository, branch="feature", message=name, changes=[change], by=self.ines)

    def add_pull(self, name: str) -> None:
        number = next(self.numbers)
        fields = {"head_sha": self.pull.head_sha, "base_sha": self.pull.base_sha, "author": self.user}
        PullRequest.objects.create(
            repository=self.repository, number=number, title=name, source=name, target="master", **fields
        )

    def add_build(self, name: str) -> None:
        Build.objects.create(
            repository=self.repository, branch=name, chain=[name], targets=[f"/shop/{name}"], by=self.user
        )

    def add_dataset(self, name: str) -> None:
        Dataset.objects.create(path=f"/shop/{name}", table=uuid4(), created_by=self.user)

    def add_branch(self, name: str) -> None:
        self.repository.git.create_branch(name, self.pull.base_sha)

    def drop_branch(self, name: str) -> None:
        git = self.repository.git
        git.delete_branch(name, expected=git.list_heads()[name])

    def tell(self, name: str) -> None:
        Notification.objects.create(user=self.user, fact="pull_opened", reason=Reason.MENTIONED, actor=name)

    def refresh(self) -> None:
        services.refresh_pull(pull=self.pull)


def drop(rows: Any) -> Callable[[str], None]:
    """What deletes the row of a name."""
    return lambda name: rows.filter(name=name).delete()


def list_lists(world: World) -> list[tuple[str, str, Callable[[str], Any], Callable[[str], Any] | None]]:
    """Address, member that names an item, what adds one, and what removes one by its name."""
    make_user = make.a_person
    repository, pull, by = world.repository, world.pull, world.ines
    return [
        (f"{API}/users", "username", make_user, lambda name: User.objects.filter(username=name).delete()),
        (f"{API}/groups", "name", lambda name: Group.objects.create(name=name), drop(Group.objects)),
        (f"{API}/repositories", "name", lambda name: make.a_repository(name, by=by), drop(Repository.objects)),
        (f"{SHOP}/labels", "name", lambda name: Label.objects.create(repository=repository, name=name, tone="plain"), drop(Label.objects)),
        (f"{SHOP}/branches", "name", lambda name: make.a_branch(repository, name, by=by), world.drop_branch),
        (f"{SHOP}/commits?branch=feature", "message", world.add_file, None),
        (f"{PULL}/commits", "message", world.add_file, None),
        (f"{PULL}/files", "path", world.add_file, None),
        (f"{SHOP}/pulls", "title", world.add_pull, lambda name: PullRequest.objects.filter(title=name).delete()),
        (
            f"{PULL}/comments", "body", lambda name: services.add_comment(pull=pull, body=name, by=by),
            lambda name: pull.comments.filter(body=name).delete(),
        ),
        (
            f"{PULL}/timeline", "data", lambda name: services.add_comment(pull=pull, body=name, by=by),
            None,
        ),
        (
            f"{PULL}/pending-comments", "body", lambda name: services.add_pending(pull=pull, body=name, by=by),
            lambda name: pull.pending.filter(body=name).delete(),
        ),
        (
            f"{API}/notifications", "by", world.tell,
            lambda name: Notification.objects.filter(actor=name).update(state="read"),
        ),
        (f"{API}/builds", "branch", world.add_build, lambda name: Build.objects.filter(branch=name).delete()),
        (
            f"{API}/datasets", "path", world.add_dataset,
            lambda name: Dataset.objects.filter(path=name).delete(),
        ),
    ]  # fmt: skip


def test_no_list_of_rest_repeats_or_skips(home: Path, admin: User, silent_bell: None) -> None:
    world = World()
    client = a_rest_client(world.ines)
    for turn, (address, member, add, remove) in enumerate(list_lists(world)):
        for number in range(COUNT):
            add(f"m{turn}-{number}")
        world.refresh()
        sep = "&" if "?" in address else "?"
        first = [str(item[member]) for item in read_all(client, f"{address}{sep}limit=250")]
        assert len(first) >= COUNT, address
        seen: list[str] = []
        removed: set[str] = set()
        following = f"{address}{sep}limit=3"
        while following:
            answer = client.get(following)
            assert answer.status_code == 200, (address, answer.content)
            page, following = [str(item[member]) for item in answer.json()["results"]], answer.json()["next"]
            seen += page
            add(f"a{turn}-{len(seen)}")
            add(f"z{turn}-{len(seen)}")
            world.refresh()
            mine = [name for name in seen if f"m{turn}-" in name and name not in removed]
            if remove and mine:
                remove(mine[-1])
                removed.add(mine[-1])
        assert len(seen) == len(set(seen)), (address, seen)
        assert set(first) <= set(seen), (address, set(first) - set(seen))


def read_all(client: Any, address: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get(address).json()["results"]
    return items


def test_no_list_of_a_page_repeats_or_skips(home: Path, admin: User, silent_bell: None) -> None:
    world = World()
    client = a_client(world.ines)
    for address, size, add, read in (
        ("/builds", 30, world.add_build, lambda page: [row.build.branch for row in page["rows"]]),
        ("/r/shop/pulls", 25, world.add_pull, lambda page: [line.title for line in page["pulls"]]),
        (
            "/r/shop/commits/feature",
            30,
            world.add_file,
            lambda page: [row.commit.subject for _day, rows in page["days"] for row in rows],
        ),
        (
            "/datasets",
            50,
            world.add_dataset,
            lambda page: [row.dataset.path[6:] for group in page["groups"] for row in group.rows],
        ),
        (
            "/repositories",
            50,
            lambda name: Repository.objects.create(name=name, created_by=world.user),
            lambda page: [row.repository.name for row in page["rows"]],
        ),
        ("/r/shop/branches", 50, world.add_branch, lambda page: [row.name for row in page["rows"]]),
    ):
        expected = [f"m-{number:03}" for number in range(size + 15)]
        for name in expected:
            add(name)
        seen: list[str] = []
        following = address
        while following:
            answer = client.get(following)
            assert answer.status_code == 200, address
            seen += [name for name in read(answer.context) if name.startswith("m-")]
            link = re.search(r'rel="next"[^>]*href="([^"]+)"|href="([^"]+)"\s+rel="next"', answer.text)
            following = html.unescape(link[1] or link[2]) if link else ""
            following = f"{address}{following}" if following.startswith("?") else following
            for number in range(3):
                add(f"a-{len(seen)}-{number}")
        assert sorted(seen) == expected, address
