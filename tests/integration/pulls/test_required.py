"""What the rules of the target ask of a pull request: its checks, and how the rows of its datasets are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.test import Client

from tests.factories import build_rows
from tests.factories import repositories as make
from tests.integration.pulls.test_merging import publish
from webapp.accounts.models import User
from webapp.core.errors import Conflict, InvalidInput
from webapp.pulls.models import PullRequest
from webapp.pulls.pages.conversation import read_conversation
from webapp.pulls.pages.data import read_data
from webapp.pulls.queries import pulls as queries
from webapp.pulls.serializers import PullDatasetSerializer
from webapp.pulls.services import pulls
from webapp.pulls.services.sides import build_pull
from webapp.repositories import services as repositories
from webapp.repositories.models import Protection, Publication, Repository
from webapp.repositories.rules.checks import CHECKS, MERGE_RESULT
from webapp.repositories.rules.states import PublicationState

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
PIPELINE = '[pipeline]\npackages = ["pipelines"]\nfolders = ["/shop"]\n'
KEYED = f'{PIPELINE}[datasets."/shop/a"]\nkey = ["id"]\n'


@pytest.fixture(autouse=True)
def own_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("webapp.runtime.doorbell.ring", lambda *_args, **_kwargs: None)
    return home


@pytest.fixture
def repository(db: None) -> Repository:
    return make.a_repository("shop", by=make.a_person("ines"))


def open_pull(repository: Repository, files: dict[str, str | None]) -> PullRequest:
    make.a_branch(repository, "feature")
    make.a_commit(repository, files, branch="feature")
    return pulls.open_pull(
        repository=repository, title="Change", source="feature", target="master", by=make.maker_of(repository)
    )


def test_a_required_check_that_nothing_gives_is_refused(repository: Repository) -> None:
    ines = make.maker_of(repository)
    with pytest.raises(InvalidInput) as refused:
        repositories.set_protection(repository=repository, branch="master", checks=["ci/lint"], by=ines)
    assert (
        "There is no check ci/lint. A protection may require JobSpecs, Build, Data current, Merge result,"
        in refused.value.detail
    )
    protection = repositories.set_protection(repository=repository, branch="master", checks=["build", "Build"], by=ines)
    assert protection.checks == ["Build"]


def test_a_check_that_was_required_before_names_were_looked_at_is_named(repository: Repository) -> None:
    pull = open_pull(repository, {"notes.txt": "new\n"})
    Protection.objects.update(checks=["ci/lint"])
    messages = [blocker.message for blocker in queries.list_blockers(pull) if blocker.code == "check_failed"]
    assert messages == [
        "The rules of master require a check ci/lint, which does not exist. A maintainer removes it there."
    ]


def test_a_pull_request_that_changes_no_dataset_meets_every_check(repository: Repository) -> None:
    pull = open_pull(repository, {"notes.txt": "new\n"})
    Protection.objects.update(checks=list(CHECKS))
    assert set(queries.list_failed_checks(pull)) == set(CHECKS) - {MERGE_RESULT}
    Publication.objects.update_or_create(
        repository=repository, branch="feature", sha=pull.head_sha, defaults={"status": PublicationState.PUBLISHED}
    )
    pulls.refresh_pull(pull=pull)
    assert queries.list_failed_checks(pull) == {}
    assert [(check.name, check.state) for check in queries.list_checks(pull)] == [(name, "green") for name in CHECKS]


def test_what_a_head_changes_is_not_told_before_its_jobspecs_are_published(
    repository: Repository, client: Client
) -> None:
    """Nothing says that it changes nothing, and no build is refused for that, while nobody can know."""
    pull = open_pull(repository, {"notes.txt": "new\n"})
    ines = make.maker_of(repository)
    publication, _ = Publication.objects.update_or_create(
        repository=repository, branch="feature", sha=pull.head_sha, defaults={"status": PublicationState.PENDING}
    )
    assert {check.state for check in queries.list_checks(pull)} == {"pending"}
    with pytest.raises(Conflict) as refused:
        build_pull(pull=pull, by=ines)
    assert refused.value.code == "publication_pending"
    head = read_data(ines, "shop", pull.number, parameters={}).head
    assert not head.is_known
    assert "No schema change" not in [item.text for item in head.verdict]
    assert {item.note for item in head.verdict} >= {"the JobSpecs are not published"}
    client.force_login(User.objects.get(pk=ines.user_id))
    for tab in ("data", "schema"):
        page = client.get(f"/r/shop/pulls/{pull.number}/{tab}").content.decode()
        assert "Not known yet" in page
        assert "changes no JobSpec" not in page
    page = " ".join(client.get(f"/r/shop/pulls/{pull.number}").content.decode().split())
    for text in ("rebuilds <b>no dataset</b>", "changes no dataset", "Schema <span", "Datasets changed <span"):
        assert text not in page, text
    assert "is known once the JobSpecs of the head are published" in page
    publication.status = PublicationState.PUBLISHED
    publication.save()
    with pytest.raises(InvalidInput, match="changes no JobSpec"):
        build_pull(pull=pull, by=ines)
    head = read_data(ines, "shop", pull.number, parameters={}).head
    assert head.is_known
    said = [(item.text, item.note) for item in head.verdict]
    assert said[2:4] == [(f"No {what} change", "no dataset is changed") for what in ("row", "schema")]


def test_what_a_head_changes_is_not_told_before_somebody_has_looked_at_its_jobspecs(
    repository: Repository, client: Client
) -> None:
    """A worker looks when they are published; until then the rows are those of the head before."""
    pull = open_pull(repository, {"notes.txt": "new\n"})
    Protection.objects.update(checks=list(CHECKS), approvals=0)
    pulls.refresh_pull(pull=pull)
    for branch, digest in (("master", "1"), ("feature", "2")):
        publish(repository, branch, digest)
    publication = {"repository": repository, "branch": "feature", "sha": pull.head_sha}
    Publication.objects.update_or_create(**publication, defaults={"status": PublicationState.PUBLISHED})
    ines = make.maker_of(repository)
    assert [check.state for check in queries.list_checks(pull)] == ["pending", "pending", "pending", "green"]
    assert "publication_pending" in {blocker.code for blocker in queries.list_blockers(pull)}
    assert not read_data(ines, "shop", pull.number, parameters={}).head.is_known
    pulls.refresh_pull(pull=pull)
    assert [check.state for check in queries.list_checks(pull)] == ["green", "pending", "red", "green"]
    head = read_conversation(ines, "shop", pull.number)
    assert head.head.is_known
    assert head.rules == [*(f"a green check {name}" for name in CHECKS), "maintainers may merge past them"]

    # A push later: what the head before would rebuild is not what merging rebuilds.
    assert pull.datasets.exists()
    make.a_commit(repository, {"notes.txt": "newer\n"}, branch="feature")
    pulls.refresh_pull(pull=pull)
    client.force_login(User.objects.get(pk=ines.user_id))
    page = " ".join(client.get(f"/r/shop/pulls/{pull.number}").content.decode().split())
    assert "is known once the JobSpecs of the head are published" in page
    assert "Merging rebuilds" not in page


def test_a_branch_older_than_a_rule_of_the_target_is_compared_by_it(repository: Repository) -> None:
    pull = open_pull(repository, {"notes.txt": "new\n"})
    make.a_commit(repository, {"pipeline.toml": KEYED})
    pulls.refresh_pull(pull=pull)
    combined = queries.read_rules(pull=pull)["/shop/a"]
    assert (combined.rules.key, combined.changes) == (("id",), ())


def test_a_rule_that_the_branch_weakens_holds_and_is_shown(repository: Repository) -> None:
    make.a_commit(repository, {"pipeline.toml": KEYED})
    pull = open_pull(repository, {"pipeline.toml": f'{PIPELINE}[datasets."/shop/a"]\nignore = ["amount"]\n'})
    for branch, digest in (("master", "1"), ("feature", "2")):
        publish(repository, branch, digest)
    pulls.refresh_pull(pull=pull)
    combined = queries.read_rules(pull=pull)["/shop/a"]
    assert (combined.rules.key, combined.rules.ignore) == (("id",), ())
    assert combined.changes == (
        "Key: id → none (not before the merge; here: id)",
        "Ignored columns: none → amount (not before the merge; here: none)",
    )
    assert [
        PullDatasetSerializer(row, context={"verdicts": []}).data["rule_changes"] for row in pull.datasets.all()
    ] == [list(combined.changes)]
    page = read_data(make.maker_of(repository), "shop", pull.number, parameters={})
    assert page.view is not None
    assert page.view.rule_changes == list(combined.changes)


def test_a_new_branch_has_removed_nothing_before_it_is_published(home: Path) -> None:
    shop = build_rows.a_world("shop", raw=())
    make.a_commit(shop.repository, {"clean.md": "a\n"})
    shop.publish(build_rows.a_jobspec("clean", inputs=["/shop/raw"], outputs=["/shop/clean"]))
    make.a_branch(shop.repository, "fresh")
    make.a_commit(shop.repository, {"notes.md": "a\n"}, branch="fresh")
    pull = pulls.open_pull(repository=shop.repository, title="New", source="fresh", target="master", by=shop.maker)
    pulls.refresh_pull(pull=pull)
    assert list(pull.datasets.values_list("path", "change")) == []

    shop.publish(build_rows.a_jobspec("other", inputs=["/shop/raw"], outputs=["/shop/other"]), branch="fresh")
    pulls.refresh_pull(pull=pull)
    assert set(pull.datasets.values_list("path", "change")) == {("/shop/clean", "removed"), ("/shop/other", "added")}
