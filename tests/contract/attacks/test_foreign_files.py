"""A commit of a client that lists another table's data file: no reader opens the file, however its rows are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.factories import datasets, fsck, repositories
from tests.factories.build_rows import World, a_world
from webapp.accounts import services as accounts
from webapp.builds.services import publication
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import request_comparison, run_comparison
from webapp.core.errors import Unavailable
from webapp.datasets.models import Dataset, Transaction
from webapp.datasets.queries.preview import PreviewRequest, read_preview
from webapp.previews import queries as preview_queries
from webapp.previews import services as previews
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.repositories.services import FileDraft
from webapp.sql import queries as sql_queries
from webapp.sql import services as sql
from webapp.sql.models import Query
from webapp.sql.rules.states import QueryState

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
CANARY = "salary-of-mira-4711"
HIDING = '[pipeline]\nfolders = ["/alpha"]\n[datasets."/alpha/people"]\nkey = ["id"]\nsensitive = ["name"]\n'
CODE = """\
from transforms.api import transform
from transforms.tables import TableInput, TableOutput


@transform.using(mine=TableInput("/beta/mine"), other=TableInput("/alpha/people"), out=TableOutput("/beta/out"))
def copy(mine, other, out):
    print(other.arrow().num_rows, mine.arrow().to_pylist())
    out.write_table(mine.arrow())
"""


@pytest.fixture
def beta(readers: Path) -> World:
    """A repository of a reader of alpha, whose table lists the data file of alpha's table with a hidden column."""
    alpha = a_world("alpha", raw=[])
    people = a_table(alpha, "alpha.people", {"id": [1], "name": [CANARY]})
    repositories.a_commit(alpha.repository, {"pipeline.toml": HIDING})
    beta = a_world("beta", raw=[])
    accounts.grant_role(repository="alpha", user=beta.user, role="reader", by=None)
    mine = a_table(beta, "beta.mine", {"id": [2], "name": ["mine"]})
    [task] = people.scan().plan_files()
    with mine.transaction() as change, change.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(task.file)
    return beta


def a_table(world: World, name: str, rows: dict[str, list[Any]]) -> Any:
    """A table of a client with some rows."""
    client = datasets.a_pyiceberg(world.user)
    client.create_namespace_if_not_exists(name.split(".", 1)[0])
    table = client.create_table(name, pa.table(rows).schema)
    table.append(pa.table(rows))
    return table


def check_closed(folder: Path, text: str) -> None:
    """Check that no file of a reader's answer has the hidden value, and that the reader names the table."""
    assert CANARY not in text
    assert "/beta/mine" in text, text
    for file in folder.rglob("*"):
        assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize(
    "text",
    [
        'SELECT * FROM "/beta/mine"',
        'SELECT m.name FROM "/beta/mine" m JOIN "/alpha/people" p ON m.id = p.id',
        'SELECT (SELECT count(*) FROM "/alpha/people"), max(name) FROM "/beta/mine"',
    ],
)
def test_sql_refuses_the_file_of_another_table(beta: World, text: str) -> None:
    query = sql.start_query(repository=beta.repository, branch="master", sql=text, by=beta.maker)
    sql.run_query(query_id=query.pk)
    query = Query.objects.get(pk=query.pk)
    assert query.state == QueryState.FAILED, query.summary
    assert "another table" in query.error
    check_closed(sql_queries.result_folder(query), query.error)


def test_a_preview_of_code_refuses_the_file_of_another_table(beta: World) -> None:
    files = {"pipelines/__init__.py": "", "pipelines/copy.py": CODE}
    sha = repositories.a_commit(beta.repository, files).sha
    publication.publish(repository=beta.repository, branch="master", sha=sha)
    preview = previews.start_preview(
        repository=beta.repository,
        branch="master",
        file="pipelines/copy.py",
        drafts=[FileDraft("", "pipelines/copy.py", f"{CODE}\n")],
        by=beta.maker,
    )
    previews.run_preview(preview_id=preview.pk)
    preview = CodePreview.objects.get(pk=preview.pk)
    assert preview.state == PreviewState.FAILED, preview.summary
    assert "another table" in preview.error
    check_closed(preview_queries.result_folder(preview), preview.error)


def test_rows_and_differences_refuse_the_file_of_another_table(beta: World) -> None:
    dataset = Dataset.objects.get(path="/beta/mine")
    with pytest.raises(Unavailable, match="/beta/mine cannot be read"):
        read_preview(beta.maker, dataset, request=PreviewRequest())
    [first, second] = Transaction.objects.filter(dataset=dataset, state="COMMITTED").order_by("number")
    comparison = request_comparison(
        dataset=dataset, before=first, after=second, rules=ComparisonRules(key=("id",)), by=beta.user.pk
    )
    run_comparison(comparison_id=comparison.pk)
    comparison = Comparison.objects.get(pk=comparison.pk)
    assert comparison.state == ComparisonState.FAILED
    assert "another table" in comparison.error
    findings = [each for check in fsck.look()["checks"] for each in check["findings"]]
    [finding] = [each for each in findings if each["code"] == "file_missing"]
    assert "outside of the table's folder" in finding["problem"]
