"""What somebody chooses to load when merging: kept as long as it may be needed, bound, refused with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from tests.factories import build_rows
from tests.factories import datasets as make_datasets
from tests.factories import repositories as make
from tests.factories.clients import a_client, a_rest_client, read_page
from webapp.accounts.models import AuditEntry, User
from webapp.builds.models import Build, Job, KeptUpload
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import quotas
from webapp.builds.services.builds import end_build, resolve_build, retry_build
from webapp.builds.services.keeping import sweep_kept_files
from webapp.core import clock
from webapp.core.errors import Conflict, PermissionDenied, StorageFull
from webapp.datasets.models import DatasetBranch
from webapp.pulls.errors import MergeBlocked
from webapp.pulls.models import Merge, PullRequest, QueuedMerge
from webapp.pulls.queries.loads import get_loaded
from webapp.pulls.queries.pulls import list_objections
from webapp.pulls.rules.states import MergeState, QueueState
from webapp.pulls.services import add_review, choose_load, enqueue_pull, judge_dataset, leave_queue, merge_pull, pulls
from webapp.pulls.services.queueing import advance_queue
from webapp.pulls.services.receivers import follow_build
from webapp.repositories.models import Protection

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
RAW, MADE = "/shop/raw", "/shop/a"
SPEC = build_rows.a_jobspec("a", outputs=[MADE])
HERE = "/r/shop/pulls/1"
REST = "/api/v1/repositories/shop/pulls/1/uploads"


@pytest.fixture
def pull(home: Path, monkeypatch: pytest.MonkeyPatch) -> PullRequest:
    """A pull request that changes no code of a dataset; master has data of one on whose branch a file is loaded."""
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    ines = make.a_person("ines", is_admin=True)
    repository = make.a_repository("shop", by=ines)
    Protection.objects.all().delete()
    make.a_branch(repository, "feature", by=ines)
    make.a_commit(repository, {"notes.txt": "new\n"}, branch="feature", by=ines)
    for branch in ("master", "feature"):
        build_rows.World(repository, ines).publish(SPEC, branch=branch)
    user = User.objects.get(username="ines")
    make_datasets.write(make_datasets.a_client(user), make_datasets.a_dataset(RAW, by=user))
    build_rows.an_upload(RAW, branch="feature", by=user)
    return pulls.open_pull(repository=repository, title="Change", source="feature", target="master", by=ines)


def choose(pull: PullRequest, *, load: bool = True, **more: Any) -> Any:
    return choose_load(row=pull.datasets.get(path=RAW), load=load, by=make.maker_of(pull.repository), **more)


def test_a_box_on_the_page_is_ticked_and_the_merge_loads(pull: PullRequest) -> None:
    writer = make.a_member(pull.repository, "writer", "a-writer")
    client, maintainer = a_client(writer), a_client(make.a_member(pull.repository, "maintainer", "mira"))
    page = read_page(client, HERE)
    assert "Load the same file on master when merging" in page
    assert 'rows.csv · 1 row, added · loaded on feature by <span class="who">ines</span>' in page
    assert "is loaded on master when merging" in page
    assert pull.datasets.get(path=RAW).lands
    choose(pull, load=False)
    pulls.refresh_pull(pull=pull)  # what somebody left out stays out
    assert "does not land" in read_page(client, HERE)
    seen = a_rest_client(writer).get(REST).json()["results"][0]
    fields = {"dataset": RAW, "load": "1", "expected_target": seen["target_transaction"]}
    answer = client.post(f"{HERE}/load", fields)
    assert (answer.status_code, answer["Location"]) == (302, f"{HERE}#merge-title")
    assert pull.datasets.get(path=RAW).lands
    page = read_page(client, HERE)
    assert "is loaded on master when merging" in page
    assert "chose that merging loads rows.csv on master, into" in page
    assert set(AuditEntry.objects.filter(actor="a-writer").values_list("verb", flat=True)) == {"choose_load"}
    # A writer chooses, and who may load on master merges.
    assert "needs the role maintainer" in page
    assert 'name="rebuild"' not in page
    page = read_page(maintainer, HERE)
    assert "Merging loads files into" in page

    # Master is written: it is to be decided once more.
    make_datasets.write(make_datasets.a_client(User.objects.get(username="mira")), pull.datasets.get(path=RAW).dataset)
    page = read_page(maintainer, HERE)
    assert "The target moved under a file that merging loads" in page
    assert "master has moved:" in page
    assert f"{RAW} was written by mira there" in page
    assert "Load on top" in page
    stale = {"dataset": RAW, "load": True, "expected_target": seen["target_transaction"]}
    assert a_rest_client(writer).post(REST, stale, content_type="application/json").json()["code"] == "target_moved"
    assert client.post(f"{HERE}/load", {"dataset": RAW, "expected_target": "elsewhere"}).status_code == 302
    assert pull.datasets.get(path=RAW).loads_onto is not None
    assert (
        a_rest_client(writer)
        .post(REST, {"dataset": RAW, "load": False}, content_type="application/json")
        .json()["load"]
        is False
    )
    assert "Load the same file on master when merging, on top of what is there" in read_page(maintainer, HERE)


def test_file_loaded_beside_newer_rows_waits_for_a_decision(pull: PullRequest) -> None:
    row = pull.datasets.get(path=RAW)
    assert (row.loads_onto, row.lands) == (get_loaded(pull, row).target_transaction, True)
    row.delete()
    make_datasets.write(make_datasets.a_client(User.objects.get(username="ines")), make_datasets.a_dataset(RAW))
    pulls.refresh_pull(pull=pull)
    assert get_loaded(pull, pull.datasets.get(path=RAW)).is_undecided


def test_a_rebuild_that_is_tried_again_loads_once(pull: PullRequest) -> None:
    choose(pull)
    merge = merge_pull(pull=pull, by=make.maker_of(pull.repository))
    build = Build.objects.get(pk=merge.build_id)
    assert (build.targets, merge.targets) == ([RAW], [])
    build_rows.World(pull.repository, make.maker_of(pull.repository)).publish(SPEC)
    resolve_build(build=build)
    job = Job.objects.get(build=build)
    assert (job.kind, job.file, job.outputs.get().transaction.type) == ("upload", "rows.csv", "APPEND")
    Job.objects.filter(pk=job.pk).update(state=JobState.COMPLETED, finished_at=clock.now())
    end_build(build=build, state=BuildState.FAILED, reason="The worker died.")
    again = retry_build(build=build, by=make.maker_of(pull.repository))
    resolve_build(build=again)
    again.refresh_from_db()
    assert (again.state, again.jobs.get().skipped, again.jobs.get().why) == (
        BuildState.COMPLETED,
        True,
        "Loaded already: rows.csv",
    )
    assert Merge.objects.get().state == MergeState.DONE


def test_a_file_is_kept_as_long_as_a_branch_or_a_merge_needs_it(
    pull: PullRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = KeptUpload.objects.get()
    (paths.kept_folder() / "of-nobody").write_bytes(b"1")
    monkeypatch.setattr(settings, "TRIBUTARY_REPOSITORY_DATA_BYTES", kept.bytes)
    monkeypatch.setattr("webapp.catalog.queries.measure_namespace", lambda **_names: 0)
    monkeypatch.setattr(quotas, "_sizes", {})
    with pytest.raises(StorageFull):
        quotas.find_data_room(repository="shop")
    assert sweep_kept_files() == 0
    assert [file.name for file in paths.kept_folder().iterdir()] == [kept.job_id]
    choose(pull)
    merge = merge_pull(pull=pull, by=make.maker_of(pull.repository))
    DatasetBranch.objects.filter(name="feature").delete()
    assert sweep_kept_files() == 0
    Build.objects.filter(pk=merge.build_id).update(state=BuildState.COMPLETED)
    Merge.objects.update(state=MergeState.DONE)
    assert sweep_kept_files() == 1
    assert list(paths.kept_folder().iterdir()) == []


@pytest.mark.parametrize(
    ("by_client", "words"),
    [
        (False, "was loaded on feature by ines, and the file rows.csv is not kept any more"),
        (True, "has rows on feature that ines wrote otherwise than by loading a file"),
    ],
)
def test_what_cannot_be_loaded_again_says_the_way_out(pull: PullRequest, by_client: bool, words: str) -> None:
    user = User.objects.get(username="ines")
    choose(pull)
    if by_client:
        make_datasets.write(make_datasets.a_client(user, "feature"), pull.datasets.get(path=RAW).dataset)
    else:
        KeptUpload.objects.all().delete()
    pulls.refresh_pull(pull=pull)
    client = a_client(user)
    page = read_page(client, HERE)
    assert f"{RAW} cannot be loaded on master when merging: it {words}: load the file on feature again." in page
    with pytest.raises(Conflict, match="cannot be loaded when merging"):
        choose(pull)
    assert choose(pull, load=False).is_chosen is False
    assert "Ready to merge" in read_page(client, HERE)


def test_what_code_makes_is_not_loaded(pull: PullRequest) -> None:
    build_rows.an_upload(MADE, branch="feature", by=User.objects.get(username="ines"))
    pulls.refresh_pull(pull=pull)
    row = pull.datasets.get(path=MADE)
    with pytest.raises(Conflict, match="is made by"):
        choose_load(row=row, load=True, by=make.maker_of(pull.repository))


def test_the_queue_tests_what_is_loaded_and_holds_the_choice(pull: PullRequest) -> None:
    choose(pull)
    make.a_commit(pull.repository, {"other.txt": "1\n"}, branch="master")
    build_rows.World(pull.repository, make.maker_of(pull.repository)).publish(SPEC)
    by = make.maker_of(pull.repository)
    queued = enqueue_pull(pull=pull, by=by)
    with pytest.raises(Conflict, match="take it out of the queue"):
        choose(pull, load=False)
    assert 'name="load"' not in read_page(a_client(User.objects.get(username="ines")), HERE)
    QueuedMerge.objects.filter(pk=queued.pk).update(state=QueueState.GREEN, build=Build.objects.first())
    leave_queue(pull=pull, by=by)
    assert choose(pull, load=False).is_chosen is False


def test_the_owner_of_the_wish_to_merge_may_load_on_master(pull: PullRequest) -> None:
    choose(pull)
    writer = make.a_member(pull.repository, "writer", "a-writer")
    for act in (merge_pull, enqueue_pull):
        with pytest.raises(PermissionDenied, match="Merging loads files on master"):
            act(pull=pull, by=writer)
    advance_queue(repository=pull.repository, target="master")
    assert not Merge.objects.exists()


def test_who_loads_another_file_neither_lands_it_nor_vouches_for_it(pull: PullRequest) -> None:
    choose(pull)
    by = make.maker_of(pull.repository)
    Protection.objects.create(repository=pull.repository, branch="master", approvals=1)
    walt = make.a_member(pull.repository, "writer", "walt")
    vera = make.a_member(pull.repository, "writer", "vera")
    enqueue_pull(pull=pull, by=by)
    job = build_rows.an_upload(RAW, branch="feature", by=User.objects.get(username="walt"))
    Build.objects.filter(pk=job.build_id).update(repository=pull.repository)
    follow_build(build=Build.objects.get(pk=job.build_id))
    pulls.refresh_pull(pull=pull)
    advance_queue(repository=pull.repository, target="master")
    queued = QueuedMerge.objects.get()
    assert (queued.state, "choose again" in queued.reason) == (QueueState.EJECTED, True)
    page = read_page(a_client(vera), HERE)
    assert "loaded rows.csv on feature, into" in page
    assert "Other files were loaded than those that were chosen" in page
    assert "Load these" in page
    with pytest.raises(PermissionDenied, match="data that they loaded themselves"):
        judge_dataset(row=pull.datasets.get(path=RAW), verdict="accepted", by=walt)

    choose(pull)
    add_review(pull=pull, verdict="approve", by=walt)
    with pytest.raises(MergeBlocked, match=f"walt loaded a file into {RAW}"):
        merge_pull(pull=pull, by=by)
    assert f"Yours would not count: you loaded a file into {RAW}" in read_page(a_client(walt), HERE)
    choose(pull, load=False)
    assert list_objections(pull) == {}
    choose(pull)
    add_review(pull=pull, verdict="approve", by=vera)
    merge_pull(pull=pull, by=by)
    pull.refresh_from_db()
    assert list_objections(pull)["walt"].words == f"loaded a file into {RAW}"
