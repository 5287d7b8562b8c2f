"""Review rules that would list rows by the values of columns that their author may not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.factories import datasets, repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.accounts import services as accounts
from webapp.comparisons.queries import ends
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.datasets.models import Dataset
from webapp.datasets.permissions import see_rows
from webapp.pulls import services
from webapp.pulls.models import PullDataset, PullRequest
from webapp.pulls.queries import pulls as queries

if TYPE_CHECKING:
    from pathlib import Path

    from webapp.core.principals import Principal

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
OWNER = '[pipeline]\nfolders = ["/alpha"]\n'
TABLE = '[datasets."/alpha/people"]\n'
HIDDEN = 'sensitive = ["salary"]\n'
ORACLE = 'filter = "salary > 100000"\n'


@pytest.fixture
def alpha(home: Path) -> World:
    """A repository whose dataset has a hidden column."""
    world = a_world("alpha", raw=["people"])
    commit(world, TABLE, 'key = ["id"]\n', HIDDEN)
    return world


def commit(world: World, *lines: str, branch: str = "master", by: Principal | None = None) -> None:
    """Commit a pipeline.toml."""
    text = "".join([OWNER if world.repository.name == "alpha" else "", *lines])
    repositories.a_commit(world.repository, {"pipeline.toml": text}, branch=branch, by=by or world.maker)


def propose(world: World, *lines: str, by: Principal | None = None) -> PullRequest:
    """Propose a pipeline.toml on a branch."""
    repositories.a_branch(world.repository, "fix", by=world.maker)
    commit(world, *lines, branch="fix", by=by)
    author = by or world.maker
    return services.open_pull(repository=world.repository, source="fix", target="master", title="Rules", by=author)


def list_refused(pull: PullRequest) -> list[str]:
    return [blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "rule_refused"]


def test_rules_about_a_dataset_of_others_do_not_count(alpha: World) -> None:
    beta = a_world("beta", raw=[])
    accounts.grant_role(repository="alpha", user=beta.user, role="reader", by=None)
    pull = propose(beta, TABLE, ORACLE)
    beta.publish(a_jobspec("over", outputs=["/alpha/people"]), branch="fix")
    datasets.write(datasets.a_client(alpha.user, "fix"), Dataset.objects.get(path="/alpha/people"), rows=1, total=4)
    services.refresh_pull(pull=pull)
    row = PullDataset.objects.get(pull=pull, path="/alpha/people")
    stored = [named.comparison.rules for named in row.comparisons.all() if named.comparison is not None]
    assert stored
    assert all("row_filter" not in rules and rules["key"] == ["id"] for rules in stored)
    assert row.rule_changes == []
    assert queries.read_rules(pull=pull) == {}
    assert queries.read_rules_at(beta.repository, pull.head_sha) == {}


def test_a_comparison_of_two_states_uses_the_rules_of_the_owner(alpha: World) -> None:
    beta = a_world("beta", raw=[])
    commit(beta, TABLE, ORACLE)
    beta.publish(a_jobspec("over", outputs=["/alpha/people"]))
    dataset = Dataset.objects.get(path="/alpha/people")
    rules = ends.read_rules(dataset, branch="master", sight=see_rows(beta.maker, dataset))
    assert rules == ComparisonRules(key=("id",))


@pytest.mark.parametrize(
    "rule",
    [
        ORACLE,
        'filter = "SALARY > 1 and id > 1"\n',
        "filter = '\"sal\\ary\" > 1'\n",
        'key = ["salary"]\n',
        'key = ["id"]\nignore = ["Salary"]\n',
        'key = ["id"]\ntolerance = { salary = 1000 }\n',
    ],
)
def test_a_writer_does_not_state_rules_about_columns_that_they_may_not_see(alpha: World, rule: str) -> None:
    writer = repositories.a_member(alpha.repository, "writer", "wim")
    pull = propose(alpha, TABLE, rule, HIDDEN, by=writer)
    [refusal] = list_refused(pull)
    assert "salary, which wim, who opened it, may not see" in refusal
    combined = queries.read_rules(pull=pull)["/alpha/people"]
    assert combined.rules == ComparisonRules(key=("id",))
    assert combined.changes == (refusal,)
    dataset = Dataset.objects.get(path="/alpha/people")
    for sight in (see_rows(writer, dataset), see_rows(None, dataset)):
        assert ends.read_rules(dataset, branch="fix", sight=sight) == ComparisonRules(key=("id",))


def test_nobody_has_a_maintainer_open_it_for_them(alpha: World) -> None:
    writer = repositories.a_member(alpha.repository, "writer", "wim")
    pull = propose(alpha, TABLE, 'key = ["id"]\n', HIDDEN, "[seeds]\n")
    assert list_refused(pull) == []
    commit(alpha, TABLE, ORACLE, HIDDEN, branch="fix", by=writer)
    services.refresh_pull(pull=pull)
    pull.refresh_from_db()
    [refusal] = list_refused(pull)
    assert "wim, who pushed" in refusal


def test_who_sees_the_column_states_any_rule(alpha: World) -> None:
    pull = propose(alpha, TABLE, 'key = ["id"]\n', ORACLE, HIDDEN)
    assert list_refused(pull) == []


def test_other_rules_of_a_writer_count(alpha: World) -> None:
    writer = repositories.a_member(alpha.repository, "writer", "wim")
    pull = propose(alpha, TABLE, 'key = ["id", "day"]\nfilter = "salary_grade > 1"\n', HIDDEN, by=writer)
    assert list_refused(pull) == []
    assert queries.read_rules(pull=pull)["/alpha/people"].rules.key == ("id", "day")


def test_rules_of_a_target_that_any_writer_moves_are_checked_too(alpha: World) -> None:
    writer = repositories.a_member(alpha.repository, "writer", "wim")
    repositories.a_branch(alpha.repository, "own", by=writer)
    commit(alpha, TABLE, ORACLE, HIDDEN, branch="own", by=writer)
    repositories.a_branch(alpha.repository, "fix", start="own", by=writer)
    repositories.a_commit(alpha.repository, {"notes.txt": "1"}, branch="fix", by=writer)
    pull = services.open_pull(repository=alpha.repository, source="fix", target="own", title="x", by=writer)
    assert queries.read_rules(pull=pull)["/alpha/people"].rules == ComparisonRules(key=("id",))
    assert "salary, which wim" in list_refused(pull)[0]
