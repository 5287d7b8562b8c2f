"""Code in a repository of one's own that reads hidden columns of another repository's dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.exceptions import ForbiddenError

from tests.factories import datasets, repositories
from tests.factories.build_rows import World, a_jobspec, a_world
from webapp.accounts import services as accounts
from webapp.accounts.models import User
from webapp.builds import services
from webapp.builds.models import Build, Job
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.services import running
from webapp.core.errors import PermissionDenied
from webapp.core.principals import JobScope
from webapp.datasets.models import Dataset
from webapp.dispatch.logs import LogWriter

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
FOLDERS = '[pipeline]\nfolders = ["/alpha"]\n'
TABLE = '[datasets."/alpha/people"]\nkey = ["id"]\n'
HIDDEN = 'sensitive = ["id"]\n'


@pytest.fixture
def alpha(home: Path) -> World:
    """A repository whose dataset has a hidden column."""
    world = a_world("alpha", raw=["people"])
    state_rules(world, HIDDEN)
    return world


@pytest.fixture
def beta(alpha: World) -> World:
    """A repository of a reader of alpha, whose code copies alpha's dataset."""
    world = a_world("beta", raw=[])
    accounts.grant_role(repository="alpha", user=world.user, role="reader", by=None)
    world.publish(
        a_jobspec("copy", inputs=["/alpha/people"], outputs=["/beta/copy"]),
        a_jobspec("more", inputs=["/beta/copy"], outputs=["/beta/more"]),
    )
    return world


def state_rules(world: World, *lines: str) -> None:
    """Commit what the owner says of its dataset."""
    repositories.a_commit(world.repository, {"pipeline.toml": "".join([FOLDERS, TABLE, *lines])}, by=world.maker)
    world.publish()


def start(world: World, *targets: str, is_trusted: bool = False) -> Build:
    """Start a build and resolve it, as a merge does or as a person."""
    order = services.BuildOrder(branch="master", targets=targets, repository=world.repository)
    build = services.start_build(order=order, by=world.maker, is_trusted=is_trusted)
    services.resolve_build(build=build)
    build.refresh_from_db()
    return build


def check_refused(build: Build) -> None:
    assert (build.state, build.code) == (BuildState.FAILED, "hidden_columns"), build.reason
    for word in ("beta", "/alpha/people", "id", "sensitive_repositories"):
        assert word in build.reason
    assert not Job.objects.exists()


@pytest.mark.parametrize("is_trusted", [False, True])
def test_code_of_a_reader_does_not_read_hidden_columns(beta: World, *, is_trusted: bool) -> None:
    build = start(beta, "/beta/copy", is_trusted=is_trusted)
    check_refused(build)
    check_refused(retry(build, beta, is_trusted=is_trusted))


def retry(build: Build, world: World, *, is_trusted: bool) -> Build:
    """Try a build again."""
    again = services.retry_build(build=build, by=world.maker, is_trusted=is_trusted)
    services.resolve_build(build=again)
    again.refresh_from_db()
    return again


def test_the_plan_and_the_preview_of_a_build_refuse_too(beta: World) -> None:
    order = services.BuildOrder(branch="master", targets=["/beta/copy"], repository=beta.repository)
    with pytest.raises(PermissionDenied, match="/alpha/people"):
        services.plan_build(order=order, by=beta.maker)


def test_an_admin_who_builds_it_does_not_lend_the_code_their_rights(beta: World) -> None:
    """Whoever builds it, its writers read what it makes."""
    User.objects.filter(pk=beta.maker.user_id).update(is_superuser=True)
    check_refused(start(beta, "/beta/copy"))


def test_the_owner_names_repositories_that_may(alpha: World, beta: World) -> None:
    state_rules(alpha, HIDDEN, 'sensitive_repositories = ["gamma"]\n')
    check_refused(start(beta, "/beta/copy"))
    state_rules(alpha, HIDDEN, 'sensitive_repositories = ["beta"]\n')
    assert start(beta, "/beta/copy").state == BuildState.RUNNING


def test_only_the_owners_default_branch_names_them(alpha: World, beta: World) -> None:
    text = "".join([FOLDERS, TABLE, HIDDEN, 'sensitive_repositories = ["beta"]\n'])
    repositories.a_commit(beta.repository, {"pipeline.toml": text}, by=beta.maker)
    beta.publish(a_jobspec("copy", inputs=["/alpha/people"], outputs=["/beta/copy"]))
    check_refused(start(beta, "/beta/copy"))
    repositories.a_branch(alpha.repository, "side", by=alpha.maker)
    repositories.a_commit(alpha.repository, {"pipeline.toml": text}, branch="side", by=alpha.maker)
    check_refused(start(beta, "/beta/copy"))


def test_the_owners_code_reads_and_writes_them(alpha: World) -> None:
    alpha.publish(
        a_jobspec("copy", inputs=["/alpha/people"], outputs=["/alpha/copy"]),
    )
    assert start(alpha, "/alpha/copy").state == BuildState.RUNNING


def test_code_of_others_does_not_write_over_them_either(alpha: World, beta: World) -> None:
    """A job reads what its output held before."""
    accounts.grant_role(repository="alpha", user=beta.user, role="maintainer", by=None)
    beta.publish(a_jobspec("over", outputs=["/alpha/people"]))
    check_refused(start(beta, "/alpha/people"))


def test_a_job_whose_input_is_hidden_after_it_was_planned_does_not_begin(alpha: World, beta: World) -> None:
    state_rules(alpha)
    build = start(beta, "/beta/copy")
    assert build.state == BuildState.RUNNING, build.reason
    job = Job.objects.get()
    state_rules(alpha, HIDDEN)
    Job.objects.update(state=JobState.RUNNING, attempt=1, worker="w", lease_until="2999-01-01T00:00Z")
    job.refresh_from_db()
    attempt = running._Attempt(job=job, build=job.build, log=LogWriter(Path("/dev/null")), waited_for="")
    attempt.run()
    job.refresh_from_db()
    build.refresh_from_db()
    assert (job.state, "/alpha/people" in job.reason) == (JobState.FAILED, True), job.reason


def test_the_catalog_serves_hidden_columns_to_the_code_of_the_owner_alone(alpha: World, beta: World) -> None:
    for repository, is_refused in (("beta", True), ("", True), ("alpha", False)):
        table = Dataset.objects.get(path="/alpha/people").table
        scope = JobScope(
            job_id=f"job-{repository}",
            branch="_job/1",
            base_branch="master",
            chain=("master",),
            inputs={table: {"branch": "master", "snapshot_id": None, "schema_id": 0, "spec_id": 0, "order_id": 0}},
            repository=repository,
        )
        _, secret = accounts.create_token(user=beta.user, name="job", job_scope=scope)
        client = datasets.InProcessCatalog(
            "t", uri="http://catalog", token=secret, **{"header.X-PLTR-Branch": "_job/1"}
        )
        if is_refused:
            with pytest.raises(ForbiddenError, match="hidden"):
                client.load_table(table)
        else:
            client.load_table(table)


def test_a_merge_does_not_read_what_its_merger_may_not_see(alpha: World, beta: World) -> None:
    """A trusted build skips the right to write, never the right to read."""
    state_rules(alpha)
    assert start(beta, "/beta/copy", is_trusted=True).state == BuildState.RUNNING
    services.call_off_build(build=Build.objects.latest("created_at"), reason="Enough.")
    accounts.grant_role(repository="alpha", user=beta.user, role=None, by=None)
    hidden = start(beta, "/beta/copy", is_trusted=True)
    beta.publish(a_jobspec("copy", inputs=["/alpha/absent"], outputs=["/beta/copy"]))
    absent = start(beta, "/beta/copy", is_trusted=True)
    assert (hidden.state, absent.state) == (BuildState.FAILED, BuildState.FAILED)
    assert hidden.reason.replace("people", "absent") == absent.reason
    assert hidden.code == absent.code
