"""The Lineage tab: the graph across repositories, its rights and cost, and whose code reads columns that go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.protocol import InputSpec, JobSpec, OutputSpec, PublishResult
from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.builds.models import Build, CodeColumns, Job, JobOutput, OutputColumns
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services.publication import replace_specs, sweep_columns, unpublish
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import BREAKING, ComparisonState
from webapp.core.principals import Principal
from webapp.datasets.models import Dataset
from webapp.pulls.models import PullRequest
from webapp.pulls.pages.conversation import read_conversation
from webapp.pulls.queries import lineage as queries
from webapp.pulls.queries.lists import list_open_of_branches
from webapp.pulls.queries.pulls import find_latest_build, list_dataset_rows
from webapp.pulls.rules.states import PullState
from webapp.pulls.services import pulls
from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
PAGE = "/r/shop/pulls/1/lineage"
REST = "/api/v1/repositories/shop/pulls/1/lineage"
SCHEMAS = {
    "status": BREAKING,
    "before": {
        "schema": {
            "fields": [
                {"id": 1, "name": "day", "type": "string", "required": False},
                {"id": 2, "name": "late_share", "type": "double", "required": False},
            ]
        }
    },
    "after": {"schema": {"fields": [{"id": 1, "name": "day", "type": "string", "required": False}]}},
}


def a_spec(
    name: str,
    folder: str,
    *,
    reads: str = "/shop/daily",
    columns: tuple[str, ...] = (),
    words: tuple[str, ...] | None = (),
    digest: str = "",
) -> JobSpec:
    """Return a JobSpec that makes /folder/name; one with columns asks for these alone."""
    return JobSpec(
        function=f"pipelines.{name}:{name}",
        file=f"pipelines/{name}.py",
        line=1,
        inputs=(InputSpec("source", reads, None, columns, bool(columns)),),
        outputs=(OutputSpec("out", f"/{folder}/{name}"),),
        digest=digest or f"{folder}-{name}",
        words=words,
    )


def publish(repository: Repository, branch: str, *specs: JobSpec) -> None:
    replace_specs(repository=repository, branch=branch, sha="0" * 40, result=PublishResult(jobspecs=tuple(specs)))


@pytest.fixture
def pull(home: Path, db: None, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request that takes a column out of /shop/daily, which others read on several branches."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines", is_admin=True)
    shop, weather, vault = (make.a_repository(name, by=ines) for name in ("shop", "weather", "vault"))
    make.a_branch(shop, "feature", by=ines)
    make.a_commit(shop, {"notes.txt": "new\n"}, branch="feature", by=ines)
    daily = a_spec("daily", "shop", reads="/shop/raw")
    weekly = a_spec("weekly", "shop", columns=("day", "late_share"))
    plain = a_spec("plain", "shop", columns=("day",))
    publish(shop, "master", daily, weekly, plain)
    publish(shop, "feature", a_spec("daily", "shop", reads="/shop/raw", digest="new"), weekly, plain)
    publish(weather, "master", a_spec("delays", "weather", words=("late_share", "wind")))
    publish(weather, "idea", a_spec("idea", "weather", columns=("late_share",)), a_spec("old", "weather", words=None))
    publish(vault, "master", a_spec("secret", "vault", columns=("late_share",)))
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset("/shop/daily", by=user)
    pull = pulls.open_pull(repository=shop, title="Change", source="feature", target="master", by=ines)
    row = pull.datasets.get(path="/shop/daily")
    row.schema_status = BREAKING
    row.comparison = Comparison.objects.create(
        identity="1" * 64,
        dataset=dataset,
        state=ComparisonState.READY,
        summary={"inserted": 3, "deleted": 0, "updated": 5, "unchanged": 9},
        schema=SCHEMAS,
    )
    row.save()
    return pull


@pytest.fixture
def olek(pull: PullRequest) -> Principal:
    """Somebody who reads shop and weather, and not vault."""
    person = make.a_member(pull.repository, "reader", "olek")
    role = {"repository": "weather", "user": User.objects.get(username="olek"), "role": "reader"}
    make.accounts.grant_role(**role, by=None)
    return person


def read(principal: Principal, pull: PullRequest) -> queries.PullGraph:
    rows = list(list_dataset_rows(principal, pull))
    return queries.read_lineage(principal, pull, rows=rows, build=find_latest_build(pull))


def show(client: Client, who: str, address: str) -> Any:
    client.force_login(User.objects.get(username=who))
    return client.get(address)


def test_the_graph_goes_across_repositories_and_names_only_what_one_may_see(pull: PullRequest, olek: Principal) -> None:
    lineage = read(olek, pull)
    assert {node.path: node.change for node in lineage.nodes} == {
        "/shop/daily": "modified",
        "/shop/plain": "affected",
        "/shop/weekly": "affected",
        "/weather/delays": None,
    }
    assert lineage.nodes[0].path == "/shop/daily"
    assert (lineage.hidden, lineage.is_cut) == (1, False)
    nodes = {node.path: node for node in lineage.nodes}
    daily, delays = nodes["/shop/daily"], nodes["/weather/delays"]
    assert (daily.schema.status, daily.schema.removed, daily.rows.inserted) == (BREAKING, ("late_share",), 3)
    assert (delays.repository, delays.branch, delays.inputs[0].is_listed) == ("weather", "master", False)
    assert [(source.columns, source.is_listed) for source in nodes["/shop/weekly"].inputs] == [
        (("day", "late_share"), True)
    ]
    assert "/vault/secret" in {node.path for node in read(make.maker_of(pull.repository), pull).nodes}


def test_readers_on_any_branch_are_named_with_what_is_known(pull: PullRequest, olek: Principal) -> None:
    breaks = read(olek, pull).breaks
    broken = {
        reader.outputs: (reader.gone.read, reader.gone.named, reader.branches, reader.others)
        for reader in breaks.broken
    }
    assert broken == {
        ("/shop/weekly",): (("late_share",), (), ("master", "feature"), 0),
        ("/weather/delays",): ((), ("late_share",), ("master",), 0),
        ("/weather/idea",): (("late_share",), (), ("idea",), 0),
    }
    assert (breaks.columns, breaks.hidden, breaks.unknown) == ({"/shop/daily": ("late_share",)}, 1, ("/weather/old",))
    assert breaks.others == 1, "/shop/plain asks for another column alone"


def test_a_reader_that_the_branch_mends_is_not_broken(pull: PullRequest, olek: Principal) -> None:
    """Neither on the target, nor on a branch that has it as the source found it; another version of it is."""
    shop = pull.repository
    weekly = a_spec("weekly", "shop", columns=("day", "late_share"))
    publish(
        shop,
        "feature",
        a_spec("daily", "shop", reads="/shop/raw", digest="new"),
        a_spec("weekly", "shop", columns=("day",), digest="mended"),
    )
    publish(shop, "stale", weekly)
    publish(shop, "other", a_spec("weekly", "shop", columns=("late_share",), digest="another"))
    broken = {reader.branches for reader in read(olek, pull).breaks.broken if reader.repository == "shop"}
    assert broken == {("other",)}


def test_one_that_is_over_breaks_nothing_any_more(pull: PullRequest, olek: Principal) -> None:
    PullRequest.objects.filter(pk=pull.pk).update(state=PullState.CLOSED)
    pull.refresh_from_db()
    assert read(olek, pull).breaks.columns == {}


def test_the_merge_box_warns_and_does_not_block(pull: PullRequest, olek: Principal) -> None:
    box = read_conversation(olek, "shop", 1).merge
    assert box.subject.breaks is not None
    assert [(line.is_certain, line.branches) for line in box.subject.breaks.lines] == [
        (True, "master, feature"),
        (False, "master"),
        (True, "idea"),
    ]
    assert not [blocker for blocker in box.blockers if "late_share" in blocker.message]
    Comparison.objects.update(schema={})
    pull.datasets.update(schema_status="unchanged")
    assert read_conversation(olek, "shop", 1).merge.subject.breaks is None


def test_page_and_rest_say_the_same(pull: PullRequest, olek: Principal, client: Client) -> None:
    page = read_page(show(client, "olek", PAGE))
    text = re.sub("<[^>]*>", "", page)
    for sentence in (
        "breaks/shop/weekly: reads late_share",
        "may break/weather/delays: its code names late_share",
        "Columns are not known: /weather/old",
        "1 transform that you may not see",
    ):
        assert sentence in text
    assert "vault" not in page
    answer = show(client, "olek", REST).json()
    assert {node["path"] for node in answer["nodes"]} >= {"/shop/daily", "/weather/delays"}
    assert answer["breaks"]["columns"] == {"/shop/daily": ["late_share"]}
    assert "vault" not in str(answer)
    User.objects.create_user(username="stranger")
    assert show(client, "stranger", PAGE).status_code == 404
    assert show(client, "stranger", REST).status_code == 404
    conversation = read_page(show(client, "olek", "/r/shop/pulls/1"))
    assert "This does not block the merge" in conversation


def test_nodes_say_what_became_of_the_newest_build(pull: PullRequest, olek: Principal) -> None:
    build = Build.objects.create(
        branch="feature", chain=["feature"], targets=["/shop/daily"], repository=pull.repository,
        state=BuildState.FAILED, by=User.objects.get(username="ines"),
    )  # fmt: skip
    job = Job.objects.create(build=build, number=1, state=JobState.FAILED)
    JobOutput.objects.create(job=job, name="out", path="/shop/daily")
    (daily,) = [node for node in read(olek, pull).nodes if node.path == "/shop/daily"]
    assert (daily.build, daily.build_id) == ("failed", build.pk)


def test_columns_are_shown_as_the_plan_told_and_name_only_what_one_may_see(
    pull: PullRequest, olek: Principal, client: Client
) -> None:
    dataset = Dataset.objects.get(path="/shop/daily")
    ines = User.objects.get(username="ines")
    make_datasets.write(make_datasets.a_client(ines), dataset, rows=1, total=1)
    newest = dataset.transactions.get(state="COMMITTED")
    pull.datasets.filter(path="/shop/daily").update(after=newest)
    build = Build.objects.create(
        branch="feature", chain=["feature"], targets=["/shop/daily"], repository=pull.repository,
        state=BuildState.COMPLETED, by=ines,
    )  # fmt: skip
    job = Job.objects.create(build=build, number=1, state=JobState.COMPLETED)
    output = JobOutput.objects.create(job=job, name="out", path="/shop/daily", dataset=dataset, transaction=newest)
    made_of = {"/vault/secret": ["who"], "/shop/raw": ["late", "flights"]}
    columns = [{"column": "late_share", "sources": made_of}, {"column": "flights", "sources": {}}]
    OutputColumns.objects.create(output=output, columns=columns)
    seen = [
        {"name": "late_share", "sources": [{"path": "/shop/raw", "columns": ["late", "flights"]}], "hidden": 1},
        {"name": "flights", "sources": [], "hidden": 0},
    ]
    [daily] = [node for node in show(client, "olek", REST).json()["nodes"] if node["path"] == "/shop/daily"]
    assert daily["columns"] == seen
    assert show(client, "olek", f"/api/v1/datasets/{dataset.pk}/lineage").json()["columns"] == seen
    for address in (PAGE, f"/datasets/{dataset.pk}/lineage"):
        text = re.sub("<[^>]*>", "", read_page(show(client, "olek", address)))
        assert "late_shareof /shop/raw:late,flights1 dataset that you may not see" in text
        assert "flightsof no column" in text
        assert "vault" not in text
    whole = show(client, "ines", REST).json()
    [daily] = [node for node in whole["nodes"] if node["path"] == "/shop/daily"]
    assert [source["path"] for source in daily["columns"][0]["sources"]] == ["/shop/raw", "/vault/secret"]


def test_the_graph_is_cut_and_says_so_and_its_queries_do_not_grow(
    pull: PullRequest, olek: Principal, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert show(client, "olek", PAGE).status_code == 200
        return len(captured)

    count()
    few = count()
    weather = Repository.objects.get(name="weather")
    publish(weather, "master", *(a_spec(f"d{number}", "weather", words=("late_share",)) for number in range(40)))
    assert count() <= few
    monkeypatch.setattr(queries, "MAX_NODES", 10)
    lineage = read(olek, pull)
    assert (len(lineage.nodes), lineage.is_cut, lineage.nodes[0].path) == (10, True, "/shop/daily")
    assert "cut at" in read_page(show(client, "olek", PAGE))


def test_columns_of_code_that_no_branch_has_are_forgotten(pull: PullRequest) -> None:
    assert CodeColumns.objects.filter(digest="vault-secret").exists()
    unpublish(repository=Repository.objects.get(name="vault"), branch="master")
    assert (sweep_columns(), sweep_columns()) == (1, 0)


@pytest.mark.usefixtures("olek")
def test_the_page_of_a_dataset_names_what_is_one_step_away(client: Client) -> None:
    dataset = Dataset.objects.get(path="/shop/daily")
    fragment = f"/datasets/{dataset.pk}/lineage?fragment=freshness"
    for who, used_by in (
        ("olek", ["/shop/plain", "/shop/weekly", "/weather/delays"]),
        ("ines", ["/shop/plain", "/shop/weekly", "/vault/secret", "/weather/delays"]),
    ):
        page = read_page(show(client, who, fragment))
        assert re.findall(r"<span>(/[^<]*)</span>", page) == ["/shop/raw", *used_by]


def test_the_branches_of_a_dataset_lead_to_their_open_pull_requests(pull: PullRequest, client: Client) -> None:
    dataset = Dataset.objects.get(path="/shop/daily")
    link = 'href="/r/shop/pulls/1"'
    page = read_page(show(client, "ines", "/d/shop/daily?tab=branches"))
    assert link in page
    assert "and 1 that reads by fallback" in page
    assert link not in read_page(show(client, "ines", "/d/shop/raw?tab=branches")), "it changes nothing of that one"
    master = dataset.branches.get(name="master")
    dataset.branches.create(name="feature", name_lower="feature", parent=master)
    page = read_page(show(client, "ines", "/d/shop/daily?tab=branches"))
    assert link in page
    assert "by fallback" not in page
    by = make.maker_of(pull.repository)
    assert list(list_open_of_branches(principal=by, dataset=dataset, branches=["idea"])) == []
    PullRequest.objects.filter(pk=pull.pk).update(state=PullState.CLOSED)
    assert link not in read_page(show(client, "ines", "/d/shop/daily?tab=branches"))
