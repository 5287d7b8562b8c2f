"""Data that somebody loads on a branch does not land by merging: said before the merge, and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.integration.pulls.test_merging import publish
from webapp.accounts.models import User
from webapp.builds import queries as builds
from webapp.builds.models import RUN, UPLOAD, Build, Job
from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import BREAKING, UNCHANGED, ComparisonState
from webapp.datasets.models import Transaction
from webapp.pulls.models import Merge, PullRequest
from webapp.pulls.pages import counts
from webapp.pulls.pages.conversation import read_conversation
from webapp.pulls.pages.data import read_data
from webapp.pulls.pages.listing import read_new
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.pulls.rules.states import MergeState
from webapp.pulls.serializers import MergeSerializer, PullDatasetSerializer
from webapp.pulls.services import build_pull, merging, pulls
from webapp.repositories.models import Publication
from webapp.repositories.rules.states import PublicationState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
RAW = "/shop/raw"
"""No JobSpec reads it."""
WHY = (
    "Loaded on feature by ines. Data of a branch is never merged: master stays as it is until this is loaded there too."
)


@pytest.fixture
def pull(home: Path, db: None, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request that changes one JobSpec, and on whose branch somebody has loaded another dataset."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines", is_admin=True)
    repository = make.a_repository("shop", by=ines)
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    for branch, digest in (("master", "1"), ("feature", "2")):
        publish(repository, branch, digest)
    Publication.objects.filter(repository=repository).update(status=PublicationState.PUBLISHED)
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset(RAW, by=user)
    make_datasets.write(make_datasets.a_client(user), dataset)
    make_datasets.write(make_datasets.a_client(user, "feature"), dataset)
    return pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


def test_what_does_not_land_is_said_before_the_merge(pull: PullRequest) -> None:
    rows = {row.path: PullDatasetSerializer(row, context={"verdicts": []}).data for row in pull.datasets.all()}
    assert {path: row["lands"] for path, row in rows.items()} == {"/shop/a": True, RAW: False}
    assert rows[RAW]["lands_reason"] == WHY
    box = read_conversation(make.maker_of(pull.repository), "shop", pull.number).merge
    assert [(one.path, one.text) for one in box.subject.not_landing] == [(RAW, WHY)]
    assert (box.subject.effect.datasets, box.subject.effect.total) == (1, 1)
    assert read_data(make.maker_of(pull.repository), "shop", pull.number, parameters={}).head.datasets == 1
    assert queries.list_rebuilt(pull.datasets.all()) == ["/shop/a"]
    new = read_new(make.maker_of(pull.repository), repository="shop", parameters={"source": "feature"})
    assert new.difference.datasets == {"/shop/a": states.MODIFIED, RAW: states.MODIFIED}


def test_what_does_not_land_is_in_no_sum(pull: PullRequest) -> None:
    rows = list(pull.datasets.select_related("comparison"))
    for row in rows:
        row.schema_status = BREAKING
        row.comparison = Comparison(state=ComparisonState.READY, summary={"inserted": 5, "deleted": 3, "updated": 1})
    diff = counts.sum_rows(rows)
    assert (diff.delta, diff.schemas, diff.breaking) == ((5, 3, 1), 1, 1)
    assert (diff.ready, diff.total, diff.unlanded_words) == (2, 2, "1 dataset does not land")
    loaded = counts.sum_rows(row for row in rows if row.path == RAW)
    assert (loaded.delta, loaded.ready, loaded.schemas) == (None, 1, 0)


def test_the_verdict_on_schemas_counts_what_lands(pull: PullRequest) -> None:
    """A schema of data that does not land is no change, and its dataset none of those without one."""
    ines = make.maker_of(pull.repository)

    def judge() -> tuple[str, str]:
        item = read_data(ines, "shop", pull.number, parameters={}).head.verdict[3]
        return item.text, item.note

    pull.datasets.filter(path=RAW).update(schema_status=BREAKING)
    assert judge() == ("Schemas not compared", "nothing is built yet")
    pull.datasets.exclude(path=RAW).update(schema_status=UNCHANGED)
    text, note = judge()
    assert (text, note.split(", ")[0]) == ("No schema change", "in 1 dataset")
    pull.datasets.exclude(path=RAW).delete()
    assert judge()[0] == "No schema lands"


def test_what_did_not_land_is_said_after_the_merge(pull: PullRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    ines = make.maker_of(pull.repository)
    merge = merging.merge_pull(pull=pull, by=ines, rebuild=states.AFFECTED)
    assert merge.targets == ["/shop/a"]
    assert MergeSerializer(merge).data["outcome"] == {RAW: {"state": "not_landed", "reason": WHY}}
    box = read_conversation(ines, "shop", pull.number).merge
    assert [(one.path, one.word, one.text) for one in box.outcomes][1:] == [(RAW, "Did not land", WHY)]
    different = Comparison.objects.latest("pk")
    Comparison.objects.filter(pk=different.pk).update(state=ComparisonState.READY, summary={"inserted": 1})
    Merge.objects.update(state=MergeState.DONE, outcome={"/shop/a": {"comparison": different.pk}})
    rebuilt = read_conversation(ines, "shop", pull.number).merge.outcomes[0]
    assert (rebuilt.word, rebuilt.text) == (
        "Different",
        "Not what was reviewed: +1 −0 ~0 rows. Newer inputs on the target or what did not land are the usual reasons.",
    )


def test_what_was_loaded_over_unchanged_code_is_not_rebuilt(pull: PullRequest) -> None:
    """A build of the pull request would replace what was loaded, and the target has nothing to make anew."""
    publish(pull.repository, "master", "1", name="b")
    publish(pull.repository, "feature", "1", name="b")
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset("/shop/b", by=user)
    make_datasets.write(make_datasets.a_client(user, "feature"), dataset)
    ines = make.maker_of(pull.repository)
    pulls.refresh_pull(pull=pull)
    row = pull.datasets.get(path="/shop/b")
    assert (row.change, row.lands, row.current) == (states.MODIFIED, False, True)
    box = read_conversation(ines, "shop", pull.number).merge
    assert (box.subject.effect.datasets, box.subject.effect.total) == (1, 1)
    (build,) = build_pull(pull=pull, by=ines)
    assert build.targets == ["/shop/a"]


def test_what_lands_later_is_not_said_to_be_nothing(pull: PullRequest) -> None:
    """While the rows that land are not compared yet, those that do not land are not all that there is."""
    ines = make.maker_of(pull.repository)
    for row in pull.datasets.filter(path=RAW):
        Comparison.objects.filter(pk=row.comparison_id).update(state=ComparisonState.READY, summary={"inserted": 5})

    def judge() -> tuple[str, str]:
        item = read_conversation(ines, "shop", pull.number).head.verdict[2]
        return item.text, item.note

    assert judge() == ("Rows not compared", "1 dataset, 1 dataset does not land")
    pull.datasets.exclude(path=RAW).delete()
    assert judge() == ("No row lands", "1 dataset does not land")


def test_what_was_loaded_over_new_code_is_no_other_result_of_the_merge(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset("/shop/a", by=user)
    for branch in (None, "feature"):
        make_datasets.write(make_datasets.a_client(user, branch), dataset)
    monkeypatch.setattr("webapp.pulls.rules.approvals.list_blockers", lambda _facts: [])
    merge = merging.merge_pull(pull=pull, by=make.maker_of(pull.repository))
    assert merge.targets == ["/shop/a"]
    merging.note_build_finished(build=end(merge))
    merge.refresh_from_db()
    assert merge.outcome["/shop/a"]["comparison"]
    assert MergeSerializer(merge).data["outcome"]["/shop/a"]["state"] == "not_landed"


def end(merge: Merge) -> Build:
    Build.objects.filter(pk=merge.build_id).update(state="COMPLETED")
    return Build.objects.get(pk=merge.build_id)


def test_what_a_build_replaced_is_not_called_loaded(pull: PullRequest) -> None:
    head = Transaction.objects.get(dataset__path=RAW, branch_name="feature")
    assert builds.find_loaded(heads={RAW: head}) == {RAW: "ines"}
    user = User.objects.get(username="ines")
    build = Build.objects.create(branch="feature", chain=[], targets=[], by=user, state="COMPLETED")
    for kind, type_, loaded in ((UPLOAD, "SNAPSHOT", "ines"), (RUN, "APPEND", "ines"), (RUN, "SNAPSHOT", None)):
        job = Job.objects.create(build=build, kind=kind, number=build.jobs.count() + 1, digest="2")
        head = Transaction.objects.create(
            dataset=head.dataset,
            dataset_branch=head.dataset_branch,
            branch_name="feature",
            number=head.number + 1,
            parent=head,
            type=type_,
            state="COMMITTED",
            by="ines",
            job_id=job.pk,
            schema_id=head.schema_id,
            closed_at=head.closed_at,
            started_at=head.started_at,
        )
        assert builds.find_loaded(heads={RAW: head}).get(RAW) == loaded


def test_what_was_loaded_over_new_code_is_not_of_that_code(pull: PullRequest) -> None:
    user = User.objects.get(username="ines")
    dataset = make_datasets.a_dataset("/shop/a", by=user)
    for branch in (None, "feature"):
        make_datasets.write(make_datasets.a_client(user, branch), dataset)
    pulls.refresh_pull(pull=pull)
    row = pull.datasets.get(path="/shop/a")
    assert (row.current, row.lands, queries.list_rebuilt([row])) == (False, False, ["/shop/a"])
    assert row.lands_reason.endswith("master has what the JobSpec makes there.")


def test_what_was_loaded_on_a_branch_between_does_not_land_either(pull: PullRequest) -> None:
    make.a_branch(pull.repository, "upper", start="feature")
    make.a_commit(pull.repository, {"notes.txt": "newer\n"}, branch="upper")
    upper = pulls.open_pull(
        repository=pull.repository, title="More", source="upper", target="master", by=make.maker_of(pull.repository)
    )
    assert upper.datasets.get(path=RAW).lands_reason == WHY
