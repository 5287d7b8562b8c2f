"""From a commit to published JobSpecs: import its modules in a sandboxed process, then replace the branch's rows at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from jobs.protocol import (
    CodeError,
    JobSpec,
    ProtocolError,
    PublishRequest,
    PublishResult,
    read_answer,
    write_message,
)
from webapp.accounts.permissions import find_folder_owner
from webapp.builds.models import (
    Build,
    CodeColumns,
    ModuleFingerprint,
    PublishedInput,
    PublishedOutput,
    PublishedSpec,
)
from webapp.builds.queries.chains import find_head_sha
from webapp.builds.queries.used_files import find_unknown_blobs
from webapp.builds.rules import profiles
from webapp.builds.runner import paths
from webapp.builds.services import trees
from webapp.core import names
from webapp.core.databases import keep_trying
from webapp.core.errors import AppError, InvalidInput, Unavailable
from webapp.dispatch.failures import PATIENCE_S, PartLost, named_failures, settled_failures
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.leases import MAX_LOST, Leases
from webapp.dispatch.processes import Ending, Sandbox, launch, watch
from webapp.repositories import services as repository_services
from webapp.repositories.models import Publication, Repository
from webapp.repositories.rules.states import MOST_ERRORS, PublicationState
from webapp.runtime import doorbell
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.room import wait_for_room

TASK = "webapp.builds.tasks.publish"
SLOTS = FairSlots(6)
"""Imports of commits that run at a time in one worker."""
MOST_LOOKED_AT = 100
"""Pending publications among which the next is chosen."""
PATHS_AT_ONCE = 500
"""Datasets that one query asks for."""
LAST_LINES = 3
"""Of what a process has said, for those who read that it failed."""


def follow_commit(*, repository: Repository, branch: str, after: str, **_: Any) -> None:
    """Publish what the new head of a branch declares."""
    request_publication(repository=repository, branch=branch, sha=after)


def request_publication(*, repository: Repository, branch: str, sha: str) -> None:
    """Ring for the publication of a commit once the current atomic block is committed."""
    transaction.on_commit(
        lambda: doorbell.ring(TASK, queue="quick", repository=repository.name, branch=branch, sha=sha)
    )


def request_or_drop(*, publication: Publication) -> None:
    """Ring again for a pending publication, or forget it when the branch has moved on."""
    repository, branch = publication.repository, publication.branch
    # An older copy has an older head: that would not say that the branch has moved on.
    repository_services.check_copy(repository=repository)
    if find_head_sha(repository=repository, branch=branch) == publication.sha:
        request_publication(repository=repository, branch=branch, sha=publication.sha)
    else:
        _drop_superseded(publication)


def _drop_superseded(publication: Publication) -> None:
    """Forget a publication whose branch has moved on: its repository's next one waits for it otherwise."""
    branches = publication.repository.branches.filter(name=publication.branch)
    if branches.filter(announced_head=publication.sha).exists():
        # A ref that is missing though its branch was never deleted may come back.
        Publication.objects.held(publication).give_back()
    else:
        publication.delete()


def publish(*, repository: Repository, branch: str, sha: str) -> None:
    """Publish one commit on one branch, if that is pending.

    Does nothing if the branch has moved on: its new head has its own turn. It also does nothing while another commit that
    the same user pushed to the repository is being published, or if the user has no share of the slots left: imports can
    hang. The end of a publication starts the next one.
    """
    if find_head_sha(repository=repository, branch=branch) != sha:
        return
    repository_services.check_copy(repository=repository)
    pending = Publication.objects.free().with_pusher()
    publication = pending.filter(repository=repository, branch=branch, sha=sha).first()
    if publication is None:
        return
    with SLOTS.taking(publication.pusher) as is_taken:
        if not is_taken or not _claim_turn(publication):
            return
        _publish(publication)
    _ring_next(ended=publication)


def _publish(publication: Publication) -> None:
    held = Publication.objects.held(publication)
    with settled_failures("The commit could not be published", held, give_up=partial(_give_up, publication)):
        result = import_commit(repository=publication.repository, sha=publication.sha, held=held)
        with named_failures("What the modules declare could not be stored"):
            settle_publication(publication=publication, result=result)


def _claim_turn(publication: Publication) -> bool:
    """Claim a publication unless one of the same user runs in the repository."""
    with transaction.atomic():
        # Locked, so that another worker does not look at the same time.
        list(Repository.objects.select_for_update().filter(pk=publication.repository_id))
        running = Publication.objects.running().with_pusher().filter(repository=publication.repository_id)
        if running.pushed_by(publication.pusher).exclude(pk=publication.pk).exists():
            return False
        return Publication.objects.claim(publication)


def _ring_next(*, ended: Publication | None = None) -> None:
    """Notify a worker of the next publication: of the user whose turn it is, the newest head of a repository."""
    running = Publication.objects.running().with_pusher()
    blocked = running.filter(repository=OuterRef("repository")).pushed_by(OuterRef("pusher"))
    waiting = Publication.objects.free().with_pusher().filter(~Exists(blocked))
    if ended is not None:
        waiting = waiting.exclude(pk=ended.pk)
    seen: set[tuple[int, int | None]] = set()
    for row in SLOTS.in_turn(waiting.order_by("created_at", "pk"), user="pusher", most=MOST_LOOKED_AT):
        if (row.repository_id, row.pusher) in seen:
            continue
        seen.add((row.repository_id, row.pusher))
        newest = waiting.filter(repository=row.repository_id).pushed_by(row.pusher).order_by("-created_at", "-pk")
        for candidate in newest.select_related("repository")[:MOST_LOOKED_AT]:
            # A damaged repository is reported by readiness; the sweep notifies for what is left.
            with suppress(AppError):
                if find_head_sha(repository=candidate.repository, branch=candidate.branch) == candidate.sha:
                    request_publication(repository=candidate.repository, branch=candidate.branch, sha=candidate.sha)
                    return


def take_over_lost_publications() -> int:
    """Retry or give up publications whose lease ran out: their worker is dead."""
    lost = Publication.objects.lost()
    given_up = list(lost.filter(lost__gte=MAX_LOST).select_related("repository"))
    for publication in given_up:
        # Where the repository is damaged readiness says so, and the other ones go on.
        with suppress(AppError):
            settle_publication(
                publication=publication, result=_fail("The worker died twice while it published the commit.")
            )
    return len(given_up) + lost.retry()


def _give_up(publication: Publication, error: AppError) -> None:
    settle = partial(settle_publication, publication=publication, result=_fail(error.detail))
    keep_trying(settle, seconds=PATIENCE_S)


def settle_publication(*, publication: Publication, result: PublishResult) -> None:
    """Write down what an import says, unless the branch has moved on, or the publication is another worker's now."""
    repository, branch, sha = publication.repository, publication.branch, publication.sha
    errors = list(result.errors) or check_result(repository=repository, result=result)
    with transaction.atomic():
        if not Publication.objects.held(publication).renew():
            return
        if find_head_sha(repository=repository, branch=branch) != sha:
            _drop_superseded(publication)
            return
        if not errors:
            replace_specs(repository=repository, branch=branch, sha=sha, result=result)
        repository_services.set_publication(
            repository=repository,
            branch=branch,
            sha=sha,
            status=PublicationState.FAILED if errors else PublicationState.PUBLISHED,
            jobspecs=len(result.jobspecs),
            errors=[
                {"file": error.file, "line": error.line, "message": error.message} for error in errors[:MOST_ERRORS]
            ],
        )


def publish_aside(*, build: Build) -> None:
    """Publish the JobSpecs of the commit that a build names on the build's branch, which Git does not have.

    Where a branch that it falls back to has just these, they are found there, and its own has none.

    Raises:
        InvalidInput: the commit's modules cannot be imported.

    """
    repository, branch, sha = build.repository, build.branch, build.code_sha
    if repository is None or not sha:
        return
    published = PublishedSpec.objects.filter(repository=repository, sha=sha)
    if published.filter(branch__in=build.chain[1:]).exists():
        unpublish(repository=repository, branch=branch)
        return
    if not published.filter(branch=branch).exists():
        import_aside(repository=repository, branch=branch, sha=sha, by=build.by_id)


def import_aside(*, repository: Repository, branch: str, sha: str, by: int, held: Leases[Any] | None = None) -> None:
    """Publish what the modules of a commit declare on a branch that Git does not have.

    Args:
        repository: whose commit it is.
        branch: for which it is published.
        sha: the commit.
        by: the user whose share of the slots it takes.
        held: the row that asks; once somebody else has it the process is ended.

    Raises:
        InvalidInput: the commit's modules cannot be imported, or declare what cannot be.
        Unavailable: the user has no slot left, there is no room, or the job runner is starting; `PartLost` where it has died.

    """
    with SLOTS.taking(by) as is_taken:
        if not is_taken:
            message = "Waits for the end of other imports of the same user."
            raise Unavailable(message, code="no_slot")
        result = import_commit(repository=repository, sha=sha, held=held)
    _ring_next()
    errors = list(result.errors) or check_result(repository=repository, result=result)
    if errors:
        message = f"The JobSpecs of {sha[:7]} cannot be read: {errors[0].file}:{errors[0].line} {errors[0].message}"
        raise InvalidInput(message, code="publication_failed")
    with transaction.atomic():
        replace_specs(repository=repository, branch=branch, sha=sha, result=result)


def unpublish(*, repository: Repository, branch: str) -> None:
    """Remove every JobSpec of a branch."""
    PublishedSpec.objects.filter(repository=repository, branch=branch).delete()


def import_commit(*, repository: Repository, sha: str, held: Leases[Any] | None = None) -> PublishResult:
    """Import the modules of a commit in a process of its own and return what they declare.

    Args:
        repository: whose commit it is.
        sha: the commit.
        held: the row that asks, such as a publication; once somebody else has it the process is ended.

    Raises:
        Unavailable: there is no room, or the job runner is starting; `PartLost` where it has died.

    """
    wait_for_room()
    root = trees.export(repository=repository, sha=sha)
    folder = paths.work_folder(f"publish-{repository.name}-{sha[:12]}", trees.next_number())
    make_open_folder(folder)
    try:
        return import_tree(root=root, folder=folder, held=held)
    finally:
        remove_folder(folder)


def import_tree(*, root: Path, folder: Path, held: Leases[Any] | None) -> PublishResult:
    """Import the modules of files that lie in a folder, and return what they declare.

    Args:
        root: the files.
        folder: an open folder, for messages.
        held: the row that asks; once somebody else has it the process is ended.

    Raises:
        Unavailable: the job runner is starting; `PartLost` where it has died.

    """
    manifest, answer = folder / "manifest.json", folder / "result.json"
    write_message(manifest, PublishRequest(root=str(root), result_path=str(answer)))
    manifest.chmod(0o644)
    printed: deque[str] = deque(maxlen=LAST_LINES)  # what modules print may have no end
    started = launch(
        "publish",
        manifest,
        sandbox=Sandbox(layered=[str(root)], writable=[str(folder)]),
        limits=profiles.PUBLISH.as_limits(),
        log_path=folder / "log",
        cwd=str(root),
        on_line=printed.append,
    )
    with closing(started) as handle:
        lease = {} if held is None else {"look": held.is_running, "beat": held.renew}
        end = watch(handle, seconds=profiles.PUBLISH.wall_s, **lease)
    if end.ending is Ending.LOST:
        message = "The job runner died again while it imported the modules."
        raise PartLost(message, code="runner_down")
    if end.ending is Ending.OVER_TIME:
        return _fail(f"Importing the modules took longer than {profiles.PUBLISH.wall_s} seconds and was ended.")
    try:
        return read_answer(PublishResult, answer)
    except ProtocolError as error:
        said = " ".join(printed)
        if end.ending is Ending.OVER_MEMORY:
            most = profiles.PUBLISH.total_memory_bytes
            return _fail(f"Importing the modules held more than {most:,} bytes of memory and was ended.")
        if end.ending is Ending.NO_SANDBOX:
            return _fail(f"The sandbox for importing the modules could not be made: {said}")
        return _fail(f"Importing the modules ended with exit code {end.code} and no result ({error}). {said}".strip())


def _fail(message: str) -> PublishResult:
    return PublishResult(errors=(CodeError(file="pipeline.toml", line=0, message=message),))


def check_result(*, repository: Repository, result: PublishResult) -> list[CodeError]:
    """Return what speaks against publishing: illegal paths, a dataset made twice, or made by another repository."""
    errors: list[CodeError] = []
    makers: dict[str, JobSpec] = {}
    claims = _find_claims(repository, {output.path for spec in result.jobspecs for output in spec.outputs})
    for spec in result.jobspecs:
        for path in dict.fromkeys((*(o.path for o in spec.outputs), *(i.path for i in spec.inputs))):
            errors.extend(_place(spec, message) for message in _check_path(path))
        for output in spec.outputs:
            first = makers.setdefault(output.path, spec)
            if first is not spec:
                message = f"{output.path} is made by {first.function} ({first.file}:{first.line}) already."
                errors.append(_place(spec, message))
            errors.extend(_place(spec, message) for message in claims.get(output.path, ()))
    return errors


def _place(spec: JobSpec, message: str) -> CodeError:
    return CodeError(file=spec.file, line=spec.line, message=f"{spec.function}: {message}")


def _check_path(path: str) -> Iterable[str]:
    try:
        names.split_dataset_path(path)
    except AppError as error:
        yield error.detail


def _find_claims(repository: Repository, outputs: Iterable[str]) -> dict[str, list[str]]:
    """Return what speaks against each dataset: another repository owns its folder, or published it first."""
    paths = sorted(path for path in outputs if not list(_check_path(path)))
    folders = {names.folder_of(path): path for path in paths}
    owners = {folder: find_folder_owner(path) for folder, path in folders.items()}
    claims: dict[str, list[str]] = {}
    for path in paths:
        owner = owners[names.folder_of(path)]
        if owner and owner != repository.name:
            claims[path] = [f"{path} lies in a folder of the repository {owner}."]
    for begin in range(0, len(paths), PATHS_AT_ONCE):
        rows = PublishedOutput.objects.filter(path__in=paths[begin : begin + PATHS_AT_ONCE])
        rows = rows.exclude(spec__repository=repository).select_related("spec__repository").order_by("-pk")
        for other in {row.path: row for row in rows}.values():
            claims.setdefault(other.path, []).append(
                f"{other.path} is made by {other.spec.function} of the repository {other.spec.repository.name} "
                f"on branch {other.spec.branch} already."
            )
    return claims


def replace_specs(*, repository: Repository, branch: str, sha: str, result: PublishResult) -> None:
    """Put these JobSpecs in the place of the branch's old ones; what is not among them is unpublished."""
    brought = _read_changed_shas(repository, branch)
    PublishedSpec.objects.filter(repository=repository, branch=branch).delete()
    _write_columns(result.jobspecs)
    unknown = find_unknown_blobs(repository, sha, result.code)
    ModuleFingerprint.objects.bulk_create(
        [ModuleFingerprint(blob=blob, fingerprint=unknown[blob][:64]) for blob in sorted(unknown)],
        ignore_conflicts=True,
    )
    rows = PublishedSpec.objects.bulk_create(
        PublishedSpec(
            repository=repository,
            branch=branch,
            sha=sha,
            changed_sha=brought.get((spec.function, spec.digest), sha),
            function=spec.function,
            file=spec.file,
            line=spec.line,
            profile=spec.profile,
            digest=spec.digest,
            spec=_as_json(spec),
        )
        for spec in result.jobspecs
    )
    PublishedOutput.objects.bulk_create(
        PublishedOutput(spec=row, branch=branch, path=output["path"]) for row in rows for output in row.spec["outputs"]
    )
    _write_inputs(rows)


def rewrite_inputs(row: PublishedSpec) -> None:
    """Write again which datasets are read, from what the JobSpec declares."""
    with transaction.atomic():
        row.inputs.all().delete()
        _write_inputs([row])


def _write_inputs(rows: Iterable[PublishedSpec]) -> None:
    PublishedInput.objects.bulk_create(
        PublishedInput(spec=row, branch=row.branch, path=path) for row in rows for path in sorted(row.declared_inputs)
    )


def _write_columns(jobspecs: Iterable[JobSpec]) -> None:
    """Write which columns the code of these JobSpecs asks for, once for each digest."""
    rows = {spec.digest: CodeColumns(digest=spec.digest, **_describe_columns(spec)) for spec in jobspecs}
    # in one order: another branch may be publishing the same code
    CodeColumns.objects.bulk_create(
        [rows[digest] for digest in sorted(rows)],
        update_conflicts=True,
        unique_fields=["digest"],
        update_fields=["inputs", "words", "covers"],
    )


def _describe_columns(spec: JobSpec) -> dict[str, Any]:
    """Return what is asked of each input; one that is declared twice is read as both say."""
    inputs: dict[str, dict[str, Any]] = {}
    for source in spec.inputs:
        before = inputs.get(source.path, {"columns": [], "is_listed": True})
        inputs[source.path] = {
            "columns": sorted({*before["columns"], *source.columns}),
            "is_listed": before["is_listed"] and source.is_listed,
        }
    return {
        "inputs": inputs,
        "words": None if spec.words is None else list(spec.words),
        "covers": list(spec.covers),
    }


def sweep_columns() -> int:
    """Forget the columns of code that no branch has any more; return of how many digests."""
    used = PublishedSpec.objects.filter(digest=OuterRef("digest"))
    return CodeColumns.objects.filter(~Exists(used)).delete()[0]


def write_missing_inputs() -> int:
    """Write which datasets are read where a process of the release before this one published: it knows no such rows.

    It also removes JobSpecs without the rows that hang on them, which are removed here.
    """
    PublishedInput.objects.filter(~Exists(PublishedSpec.objects.filter(pk=OuterRef("spec")))).delete()
    bare = PublishedSpec.objects.filter(~Exists(PublishedInput.objects.filter(spec=OuterRef("pk"))))
    missing = list(bare.exclude(spec__inputs=[]))
    for row in missing:
        rewrite_inputs(row)
    return len(missing)


def _read_changed_shas(repository: Repository, branch: str) -> dict[tuple[str, str], str]:
    """Return which commit brought each digest; a new branch inherits this from the others."""
    specs = PublishedSpec.objects.filter(repository=repository).order_by("pk")
    rows = list(specs.values_list("function", "digest", "changed_sha", "branch"))
    rows.sort(key=lambda row: row[3] == branch)  # its own come last, so they count
    return {(function, digest): changed_sha for function, digest, changed_sha, _branch in rows}


def _as_json(spec: JobSpec) -> Mapping[str, Any]:
    return {
        "size": spec.size,
        "incremental": spec.incremental,
        "description": spec.description,
        "why_all": spec.why_all,
        "inputs": [{"name": source.name, "path": source.path, "branch": source.branch} for source in spec.inputs],
        "outputs": [
            {
                "name": output.name,
                "path": output.path,
                "checks": [
                    {
                        "name": check.name,
                        "expectation": check.expectation,
                        "on_error": check.on_error,
                    }
                    for check in output.checks
                ],
            }
            for output in spec.outputs
        ],
    }
