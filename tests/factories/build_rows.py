"""Published JobSpecs and builds as rows, without processes: for tests of services, pages and endpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.protocol import InputSpec, JobSpec, OutputSpec, PublishResult
from tests.factories import datasets, repositories
from webapp.accounts.models import User
from webapp.builds import services
from webapp.builds.models import UPLOAD, Build, Job, JobOutput, KeptUpload
from webapp.builds.rules.states import BuildState, JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication
from webapp.core import clock
from webapp.datasets.models import Transaction
from webapp.repositories import queries as repository_queries
from webapp.repositories import services as repository_services
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


@dataclass(frozen=True)
class World:
    """A repository, its maintainer, and raw data on master."""

    repository: Repository
    maker: Principal

    @property
    def user(self) -> User:
        """The maintainer's row."""
        return User.objects.get(pk=self.maker.user_id)

    def publish(self, *specs: JobSpec, branch: str = "master") -> None:
        """Publish JobSpecs as the branch's head declares them."""
        sha = repository_queries.get_head(self.repository, branch)
        publication.replace_specs(
            repository=self.repository, branch=branch, sha=sha, result=PublishResult(jobspecs=tuple(specs))
        )
        repository_services.set_publication(
            repository=self.repository, branch=branch, sha=sha, status=PublicationState.PUBLISHED, jobspecs=len(specs)
        )

    def branch(self, name: str) -> None:
        """Make a branch whose head counts as published."""
        repositories.a_branch(self.repository, name, by=self.maker)
        sha = repository_queries.get_head(self.repository, name)
        repository_services.set_publication(
            repository=self.repository, branch=name, sha=sha, status=PublicationState.PUBLISHED
        )

    def start(self, *targets: str, branch: str = "master", resolve: bool = True, **more: Any) -> Build:
        """Start a build and resolve it at once."""
        order = services.BuildOrder(branch=branch, targets=targets, **more)
        build = services.start_build(order=order, by=self.maker)
        if resolve:
            services.resolve_build(build=build)
            build.refresh_from_db()
        return build


def a_world(name: str = "shop", *, raw: Sequence[str] = ("raw",)) -> World:
    """Make a repository that owns the folder of its name, with raw datasets on master."""
    maker = repositories.a_person(f"maker-of-{name}")
    repository = repositories.a_repository(name, by=maker)
    world = World(repository, maker)
    world.publish()
    for each in raw:
        dataset = datasets.a_dataset(f"/{name}/{each}", by=world.user)
        datasets.write(datasets.a_client(world.user), dataset, rows=3, total=3)
    return world


def an_upload(
    path: str, *, branch: str, by: User, mode: str = "append", content: bytes = b"id\n1\n", is_kept: bool = True
) -> Job:
    """Make the rows of an upload that is over, with the file that was kept of it."""
    dataset = datasets.a_dataset(path, by=by)
    datasets.write(datasets.a_client(by, branch), dataset)
    build = Build.objects.create(
        kind=UPLOAD, branch=branch, chain=[branch], targets=[path], by=by, state=BuildState.COMPLETED
    )
    upload = {"file": "", "format": "csv", "mode": mode, "transaction": None}
    ended = {"state": JobState.COMPLETED, "finished_at": clock.now()}
    job = Job.objects.create(build=build, number=1, kind=UPLOAD, file="rows.csv", upload=upload, **ended)
    written = Transaction.objects.filter(dataset=dataset, branch_name=branch).latest("number")
    Transaction.objects.filter(pk=written.pk).update(job_id=job.pk, build_id=build.pk)
    JobOutput.objects.create(
        job=job, name="file", path=path, dataset=dataset, transaction=written, summary={"added_rows": 1}
    )
    if is_kept:
        paths.kept_folder().mkdir(parents=True, exist_ok=True)
        paths.kept_path(job.pk).write_bytes(content)
        KeptUpload.objects.create(job=job, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
    return job


def a_jobspec(name: str, *, inputs: Sequence[str] = (), outputs: Sequence[str] = (), digest: str = "d1") -> JobSpec:
    """Return a JobSpec as a commit publishes it."""
    return JobSpec(
        function=f"pipelines.m:{name}",
        file="pipelines/m.py",
        line=1,
        inputs=tuple(InputSpec(f"i{place}", path) for place, path in enumerate(inputs)),
        outputs=tuple(OutputSpec(f"o{place}", path) for place, path in enumerate(outputs)),
        digest=digest,
    )
