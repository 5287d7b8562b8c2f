"""Whether published JobSpecs are those of their branches' heads, and whether everything that runs can come to its end."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from webapp.builds.models import Build, Job, KeptUpload, PublishedSpec
from webapp.builds.queries.chains import find_head_sha
from webapp.builds.rules.states import BUILD_UNFINISHED, JobState
from webapp.builds.runner import paths
from webapp.builds.services import publication, sweeping
from webapp.core import clock
from webapp.core.fsck import Finding, Note, look_apart
from webapp.datasets.models import Transaction
from webapp.datasets.rules.transactions import TransactionState
from webapp.git.errors import GitError
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATE = timedelta(seconds=60)
SWEEPER = "The sweeper mends this within seconds: look whether it runs."


def check_publications() -> Iterator[Finding | Note]:
    """Find branches whose JobSpecs are not those of their head, and JobSpecs of commits that Git does not have."""
    unread: list[Repository] = []
    yield from look_apart(Repository.objects.order_by("name"), partial(_check_publications_of, unread=unread))
    yield Note(what="JobSpecs", count=PublishedSpec.objects.count())
    if unread:
        yield Note(what="repositories not checked, because Git cannot open them", count=len(unread))


def _check_publications_of(repository: Repository, *, unread: list[Repository]) -> Iterator[Finding]:
    try:
        git = repository.git
    except GitError:
        unread.append(repository)  # the check of the repositories names the damage
        return
    specs = PublishedSpec.objects.filter(repository=repository).prefetch_related("inputs")
    for row in specs.order_by("branch", "function"):
        about = f"{repository.name}:{row.branch} {row.function}"
        if not git.has_commit(row.sha):
            yield Finding(
                code="jobspec_without_commit",
                object=about,
                problem=f"Its code is commit {row.sha[:7]}, which Git does not have.",
                way_out="Bring the repository back from a backup, or commit to the branch again.",
            )
        if {(entry.path, entry.branch) for entry in row.inputs.all()} != {(p, row.branch) for p in row.declared_inputs}:
            yield Finding(
                code="jobspec_inputs_differ",
                object=about,
                problem="What it declares to read is not what lineage and builds downstream look up.",
                way_out="Write again what it reads.",
                repair=partial(publication.rewrite_inputs, row),
            )
    yield from _check_heads(repository)


def _check_heads(repository: Repository) -> Iterator[Finding]:
    for branch in repository.branches.order_by("name"):
        head = find_head_sha(repository=repository, branch=branch.name)
        row = Publication.objects.filter(repository=repository, branch=branch.name, sha=head or "").first()
        if head is None:
            continue
        about = f"{repository.name}:{branch.name}@{head[:7]}"
        again = partial(publication.request_publication, repository=repository, branch=branch.name, sha=head)
        if row is None or (row.status == PublicationState.PENDING and row.created_at < clock.now() - LATE):
            yield Finding(
                code="publication_missing",
                object=about,
                problem="The JobSpecs of the branch's head are not published.",
                way_out="Ring for the publication again.",
                repair=again,
            )
        elif row.status == PublicationState.PUBLISHED and _is_of_other_commit(row, head):
            yield Finding(
                code="jobspecs_behind",
                object=about,
                problem="The branch's JobSpecs are of another commit than its head, which counts as published.",
                way_out="Publish the head again.",
                repair=partial(_publish_again, row, again),
            )


def _is_of_other_commit(row: Publication, head: str) -> bool:
    specs = PublishedSpec.objects.filter(repository=row.repository_id, branch=row.branch)
    return specs.exclude(sha=head).exists() or specs.count() != row.jobspecs


def _publish_again(row: Publication, again: partial[None]) -> None:
    Publication.objects.filter(pk=row.pk).move(to=PublicationState.PENDING, finished_at=None, created_at=clock.now())
    again()


def check_kept_files() -> Iterator[Finding | Note]:
    """Find uploads whose files a merge could not load again."""
    kept_uploads = KeptUpload.objects.order_by("job_id")
    yield from look_apart(kept_uploads, _check_kept_file)
    yield Note(what="kept files", count=kept_uploads.count())


def _check_kept_file(kept_upload: KeptUpload) -> Iterator[Finding]:
    file = paths.kept_path(kept_upload.job_id)
    if problem := _find_problem(file, kept_upload):
        yield Finding(
            code="kept_file_lost",
            object=f"{file}",
            problem=problem,
            way_out="Bring the file back from a backup, or load it on its branch again: no merge loads it as it is.",
        )


def _find_problem(file: Path, kept_upload: KeptUpload) -> str:
    if not file.is_file():
        return "It is missing."
    size = file.stat().st_size
    if size != kept_upload.bytes:
        return f"It has {size} bytes; {kept_upload.bytes} were kept."
    with file.open("rb") as opened:
        is_same = hashlib.file_digest(opened, "sha256").hexdigest() == kept_upload.sha256
    return "" if is_same else "Its bytes are not those that were kept."


def check_builds() -> Iterator[Finding | Note]:
    """Find jobs whose worker is gone, builds that nothing carries on, and transactions that builds left open."""
    now = clock.now()
    for job in Job.objects.filter(
        state__in=[JobState.RUNNING, JobState.ABORT_PENDING], lease_until__lt=now - LATE
    ).order_by("pk"):
        yield Finding(
            code="job_lost",
            object=f"build {job.build_id} job {job.number}",
            problem=f"Its worker {job.worker} was last heard of before {job.lease_until}.",
            way_out=SWEEPER,
            repair=sweeping.take_over_lost_jobs,
        )
    running = Build.objects.filter(state__in=BUILD_UNFINISHED)
    for build in running.order_by("pk"):
        if build.jobs.exists() and all(job.is_over for job in build.jobs.all()):
            yield Finding(
                code="build_stuck",
                object=f"build {build.pk}",
                problem=f"All of its jobs are over and it is {build.state}.",
                way_out=SWEEPER,
                repair=sweeping.advance_running_builds,
            )
    alive = set(running.values_list("pk", flat=True))
    for row in Transaction.objects.filter(state=TransactionState.OPEN, build_id__isnull=False).select_related(
        "dataset"
    ):
        if row.build_id not in alive:
            yield Finding(
                code="transaction_orphaned",
                object=f"{row.dataset.path} transaction {row.pk}",
                problem=f"It is open, and build {row.build_id} is over or gone.",
                way_out=SWEEPER,
                repair=sweeping.abort_orphaned_transactions,
            )
    yield Note(what="builds", count=Build.objects.count())
