"""Whatever is committed, merged, forced and deleted: what rows say of histories is what Git itself says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pygit2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.factories import repositories as make
from tests.factories.histories import START, run_git
from webapp.repositories import queries, services
from webapp.repositories.models import Commit
from webapp.repositories.services import recording

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
NAMES = ("master", "one", "two", "three")
HOUR = 3600

_acts = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "merge", "octopus", "force", "delete", "announce", "announce"]),
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        # Clocks of authors differ, and go backwards.
        st.integers(-3, 3),
    ),
    min_size=4,
    max_size=40,
)


@dataclass
class World:
    """A repository in which anything happens."""

    repository: Repository
    announced: set[str] = field(default_factory=set)
    """Every head there ever was."""
    made: int = 0

    def __post_init__(self) -> None:
        self.git = pygit2.Repository(str(self.repository.path))
        self.announced.add(self.repository.git.get_head("master"))

    @property
    def heads(self) -> dict[str, str]:
        return self.repository.git.list_heads()

    def act(self, kind: str, name: str, other: str, skew: int) -> None:
        heads = self.heads
        there = heads.get(other, heads["master"])
        here = heads.get(name, there)
        if kind == "commit":
            self._commit(name, [here], skew)
        elif kind == "merge":
            self._commit(name, list(dict.fromkeys([here, there])), skew)
        elif kind == "octopus":
            self._commit(name, list(dict.fromkeys([here, *heads.values()])), skew)
        elif kind == "force":
            self._point(name, there)
        elif kind == "delete" and name in heads and name != "master":
            self.git.references.delete(f"refs/heads/{name}")
            services.announce(repository=self.repository, branch=name, before=here, after="", by=None)
        elif kind == "announce":
            self.announce()

    def announce(self) -> None:
        for name, head in self.heads.items():
            self.announced.add(head)
            services.announce(repository=self.repository, branch=name, before="", after=head, by=None)

    def _commit(self, name: str, parents: list[str], skew: int) -> None:
        self.made += 1
        time = START + self.made + skew * HOUR
        person = pygit2.Signature("Ines", "ines@example.org", time, 60 * skew)
        tree = self.git[parents[0]].peel(pygit2.Commit).tree_id
        oids = [pygit2.Oid(hex=parent) for parent in parents]
        sha = self.git.create_commit(None, person, person, f"Commit {self.made}\n", tree, oids)
        self._point(name, str(sha))

    def _point(self, name: str, sha: str) -> None:
        self.git.references.create(f"refs/heads/{name}", pygit2.Oid(hex=sha), force=True)


def check(world: World) -> None:
    """Compare with the program, which counts on generations that it has written, not on clocks."""
    repository, folder = world.repository, world.repository.path
    heads = world.heads
    run_git(folder, "commit-graph", "write", "--reachable")
    everything = run_git(folder, "rev-list", *world.announced).split()
    assert sorted(repository.commits.values_list("sha", flat=True)) == sorted(everything)
    assert list(recording.find_untrue(repository, repository.git)) == []
    base = heads["master"]
    counts = queries.count_ahead_behind(repository, heads.values(), base)
    for name, head in heads.items():
        ahead, behind = run_git(folder, "rev-list", "--left-right", "--count", f"{head}...{base}").split()
        assert counts[head] == (int(ahead), int(behind)), name
        assert [commit.sha for commit in queries.list_commits(repository, name, limit=None)] == list_in_git(
            folder, head
        )
        own = queries.list_commits(repository, name, not_in="master", limit=None)
        assert [commit.sha for commit in own] == list_in_git(folder, head, f"^{base}")
        assert own[1:3] == queries.list_commits(repository, name, not_in="master", offset=1, limit=2)


def list_in_git(folder: Path, *revisions: str) -> list[str]:
    return run_git(folder, "rev-list", "--date-order", *revisions).split()


@pytest.mark.parametrize("examples", [15, pytest.param(1_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])])
@pytest.mark.parametrize("batch", [3, 1_000])
def test_rows_say_what_git_says(
    examples: int, batch: int, home: Path, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(recording, "BATCH", batch)

    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow], deadline=None)
    @given(acts=_acts)
    def law(acts: list[tuple[str, str, str, int]]) -> None:
        world = World(make.a_repository())
        for act in acts:
            world.act(*act)
        world.announce()
        check(world)
        # A second time all is known, and rebuilt it is the same.
        world.announce()
        before = dict(world.repository.commits.values_list("sha", "level"))
        services.rebuild_commits(repository=world.repository)
        assert dict(Commit.objects.filter(repository=world.repository).values_list("sha", "level")) == before

    law()
