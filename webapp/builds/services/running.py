"""Running one job: claim it, start its process, watch it, and commit all its outputs at once or none of them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from jobs.protocol import (
    CATALOG_BUSY,
    CLOCK_BEHIND,
    LOST_COMMIT,
    JobResult,
    OutputTarget,
    PinnedInput,
    StagedFile,
    write_message,
)
from webapp.accounts import queries as accounts
from webapp.accounts import services as account_services
from webapp.accounts.permissions import find_folder_owner
from webapp.builds import permissions as rights
from webapp.builds import signals
from webapp.builds.models import UPLOAD, Build, Job, JobInput, JobOutput, JobRows, KeptUpload, OutputColumns, UsedFile
from webapp.builds.queries import planning, used_files
from webapp.builds.queries.trust import find_group
from webapp.builds.rules import profiles
from webapp.builds.rules.loads import Load
from webapp.builds.rules.sources import choose_sources
from webapp.builds.rules.states import JobState
from webapp.builds.rules.values import FullBuild
from webapp.builds.runner import manifests, paths
from webapp.builds.runner.manifests import Place
from webapp.builds.services import builds, interrupts, keeping, leftovers, pins, queue, quotas, seals, trees, uploads
from webapp.catalog import queries as catalog
from webapp.catalog import services as catalog_services
from webapp.catalog.rules.endpoints import listed_endpoints
from webapp.catalog.rules.errors import CommitFailed
from webapp.catalog.rules.pointers import Pointer
from webapp.core import clock
from webapp.core.databases import BUSY, keep_trying
from webapp.core.errors import AppError, Conflict, InvalidInput, Unavailable
from webapp.core.prepared import Prepared
from webapp.core.principals import JobScope
from webapp.datasets import services as dataset_services
from webapp.datasets.models import Transaction
from webapp.datasets.permissions import see_keys
from webapp.dispatch.failures import PATIENCE_S, PartLost, named_failures
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.leases import MAX_LOST
from webapp.dispatch.logs import LogWriter
from webapp.dispatch.processes import MOST_FILES, OVER_QUOTA, Ending, Handle, ProcessEnd, launch, read_status, watch
from webapp.repositories import queries as repositories
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.health import does_spark_listen
from webapp.runtime.object_store import is_object_location
from webapp.runtime.room import describe_size, wait_for_room
from webapp.runtime.spark_folders import (
    Loan,
    find_spark_folder,
    lent_spark,
    may_use_spark,
    open_spark_folder,
    remove_spark_folder,
)
from webapp.runtime.workers import THREADS

if TYPE_CHECKING:
    from webapp.builds.rules.profiles import Allowance
    from webapp.builds.rules.values import PreviousBuild

PAUSE = timedelta(seconds=8)
"""So long a job that was put back is not tried again; a little shorter than the sweep waits before it rings for it."""
MAX_BUSY = 20
"""Maximum attempts of a job if the catalog is busy, which its own code can claim forever, or if its inputs keep expiring."""
MAX_LOST_COMMITS = 3
"""Maximum attempts of a job whose commits lose every race for two minutes."""
TOKEN_MARGIN = timedelta(minutes=10)
RESULT_TRACEBACK = 20_000
SLOTS = FairSlots(THREADS["builds"])
"""Jobs that run at a time in one worker."""
_CLAIMED = Prepared(lambda job: Job.objects.filter(pk=job).select_related("build", "build__by"), str)
_INPUTS = Prepared(
    lambda job: JobInput.objects.filter(job=job).select_related("transaction", "transaction__dataset"), str
)
_TARGETS = Prepared(lambda job: JobOutput.objects.filter(job=job).select_related("dataset"), str)
_STAGED = Prepared(lambda job: JobOutput.objects.filter(job=job).select_related("dataset", "transaction__parent"), str)
_WRITTEN = Prepared(
    lambda job: JobOutput.objects.filter(job=job).select_related("transaction", "transaction__dataset"), str
)
"""What every attempt asks about its job: the job, its inputs, and its outputs when it starts, is checked and commits."""


class InputsGone(Conflict):
    """Transactions that the job is pinned to are gone."""


class Fenced(Conflict):
    """Somebody else has this job now: whatever this worker still does about it must have no effect."""


def run_job(*, worker: str) -> None:
    """Run the job whose turn it is; do nothing when none is ready.

    A message says that a job is ready; which one is run is decided here, by the turns and shares of their users.
    """
    if not _has_room():
        return
    claimed = _claim(worker, SLOTS)
    if claimed is None:
        return
    job, waited_for = claimed
    try:
        with closing(LogWriter(paths.log_path(job.pk))) as log:
            try:
                _Attempt(job=job, build=job.build, log=log, waited_for=waited_for).run()
            except Fenced:
                log.write(f"attempt {job.attempt} gave up: the job is another worker's now", is_runner=True)
    finally:
        SLOTS.release(job.build.by_id)
    _ring_next()


def _has_room() -> bool:
    """Return whether jobs may begin; else those that are ready say why they wait, and the sweep rings again."""
    try:
        wait_for_room()
    except Unavailable as error:
        Job.objects.waiting().exclude(reason=error.detail).update(reason=error.detail, rung_at=clock.now())
        return False
    return True


def _claim(worker: str, slots: FairSlots) -> tuple[Job, str] | None:
    """Take the ready job whose turn it is, and a slot for its user; return it, and why it was put back before."""
    while (candidate := _find_ready(slots)) is not None:
        user, waited_for, claimed = candidate.build.by_id, candidate.reason, None
        if not slots.take(user):
            continue  # another thread was faster
        try:
            claimed = _claim_job(candidate, worker)
        finally:
            if claimed is None:
                slots.release(user)
        if claimed is not None:
            return claimed, waited_for
        # Another worker was faster.
    return None


def _find_ready(slots: FairSlots) -> Job | None:
    ready = Job.objects.free().select_related("build").order_by("turn", "build_id", "number")
    return next(slots.in_turn(ready, user="build__by"), None)


def _claim_job(candidate: Job, worker: str) -> Job | None:
    with transaction.atomic():
        # Before the job, as everybody who ends or cancels locks them.
        builds.lock_build(build=candidate.build)
        is_claimed = Job.objects.claim(candidate, worker=worker[:200], reason="", started_at=clock.now())
        Build.objects.filter(pk=candidate.build_id, has_begun=False).update(has_begun=True)
    return _CLAIMED.all(candidate.pk)[0] if is_claimed else None


def _ring_next() -> None:
    """Notify a worker of the next job: its own message can have come while its user had no share left."""
    following = _find_ready(SLOTS)
    if following is not None:
        queue.ring_job(following)


@dataclass
class _Attempt:
    """One attempt of one job by one worker."""

    job: Job
    build: Build
    log: LogWriter
    waited_for: str
    """Why it was put back before; the log says it once."""
    opened: ExitStack = field(default_factory=ExitStack)
    """What the Spark server may write as long as this lasts."""
    loan: Loan = field(default_factory=Loan)
    steps: clock.StepWatch = field(default_factory=clock.StepWatch)
    attempt: int = 0
    shortage: str = ""
    """Why it was ended to give disk space back."""
    may_have_committed: bool = False
    """Whether its outputs are committed, or nobody knows; else its files can be removed."""
    is_removed: bool = False
    """Whether its files are removed already."""

    def run(self) -> None:
        self.attempt = self.job.attempt
        place = Place(paths.work_folder(self.job.pk, self.job.attempt))
        with ExitStack() as ending:
            # The last comes first, and a step that fails leaves out none of the others.
            ending.callback(self._leave_own_folders)
            ending.callback(self._remove_spark_folders)
            ending.callback(place.seal.unlink, missing_ok=True)
            ending.callback(remove_folder, place.folder)
            ending.callback(self._revoke_tokens)
            ending.callback(self.opened.close)
            self._try_at(place)

    def _try_at(self, place: Place) -> None:
        """Run it; where that cannot be, put it back or let it fail."""
        try:
            with named_failures("The job could not be run"):
                self._run_at(place)
        except PartLost as error:
            if not self._retry(error.detail):
                self._fail(error.detail, code=error.code)
        except (Unavailable, CommitFailed) as error:
            self._put_back(error.detail, lost=0)
        except InputsGone:
            self._read_newest()
        except Fenced:
            raise
        except AppError as error:
            self._fail(error.detail, code=error.code)

    def _run_at(self, place: Place) -> None:
        self._check_code()
        self._check_parts()
        self._say(
            f"job {self.job.number} attempt {self.job.attempt} on {self.job.worker}, profile {self.job.profile}, "
            f"size {self.job.size}, staging branch {self._staging_branch}"
        )
        self._check_inputs()
        make_open_folder(place.folder)
        if self.job.attempt > 1:
            self._drop_staging()
        allowance = self._allow()
        with closing(self._start(place, allowance)) as handle:
            beat = partial(self._beat, place)
            # Its code knows the address and the token, which are those of the next server, too: that of another group.
            end = watch(
                handle, seconds=allowance.wall_s, look=self._may_go_on, beat=beat, is_cut_off=lambda: self.loan.is_lost
            ).with_spark(self.loan)
            if not end.is_success:
                # At once: on a full disk nothing that follows can be written.
                self._remove_files()
            if self.shortage:
                remove_folder(place.folder)
            elif end.ending is Ending.WITHDRAWN:
                self._check_cancelled()
            if not end.is_success and end.ending is not Ending.SPARK_LOST:
                self._interrupt_spark()
        with named_failures("What the job answered could not be stored"):
            self._conclude(end, allowance, place)

    def _conclude(self, end: ProcessEnd, allowance: Allowance, place: Place) -> None:
        """Do what follows from the end of the process."""
        match end.ending:
            case Ending.WITHDRAWN if self.shortage:
                self._fail(self.shortage, code="disk_shortage", exit_code=end.code)
            case Ending.WITHDRAWN:
                self._abort()
            case Ending.OVER_TIME:
                reason = f"The job took longer than the {allowance.wall_s} seconds that its size allows and was ended."
                self._fail(reason, code="timeout")
            case Ending.LOST if self.job.lost < MAX_LOST:
                self._retry("The job runner died, and the job with it.")
            case Ending.SPARK_LOST:
                self._end_without_spark()
            case Ending.OVER_MEMORY:
                reason = _explain_memory(allowance.total_memory_bytes, self.job.size)
                self._fail(reason, code="memory_limit", exit_code=end.code)
            case Ending.OVER_DISK:
                self._fail_over_quota(allowance)
            case _ if self._is_over_quota_in_store(allowance):
                self._fail_over_quota(allowance)
            case _:
                self._finish(manifests.read_result(place=place, code=end.code), end.code, place)

    def _fail_over_quota(self, allowance: Allowance) -> None:
        self._fail(_explain_quota(allowance.disk_bytes, self.job.size), code="disk_quota", exit_code=OVER_QUOTA)

    def _end_without_spark(self) -> None:
        """Put back, once, what failed because the Spark server has ended: for its own fault, or for what others did there."""
        why = f" ({self.loan.why_lost})" if self.loan.why_lost else ""
        reason = f"The Spark engine ended{why}, and what the job computed on it."
        if not self._retry(reason):
            self._fail(f"{reason} It was not the first time.", code="spark_lost")

    def _allow(self) -> Allowance:
        """Return what the job may use; no more of the disk than its repository may."""
        allowance = profiles.allow(
            size=self.job.size,
            wall_s=settings.TRIBUTARY_JOB_SECONDS,
            disk_bytes=settings.TRIBUTARY_JOB_DISK_BYTES,
            total_memory_bytes=settings.TRIBUTARY_JOB_MEMORY_BYTES,
            machine_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        )
        owner = self.build.repository
        repository = self.job.repository or (owner.name if owner else "")
        room = quotas.find_data_room(repository=repository, demand=allowance.disk_bytes)
        return allowance if room is None else replace(allowance, disk_bytes=min(room, allowance.disk_bytes))

    def _is_over_quota_in_store(self, allowance: Allowance) -> bool:
        """Return whether it put more into an object store than it may, which is removed then; no keeper sees that."""
        if not any(map(is_object_location, self._locations)):
            return False
        places = [{"table": target.table, "folder": self._scope.folder} for target in self._list_targets()]
        if sum(catalog_services.measure_job_objects(**place) for place in places) <= allowance.disk_bytes:
            return False
        # Its token first: keys that it has still may write for a while, for the collector to find.
        self._revoke_tokens()
        self._remove_files()
        return True

    # --- start ------------------------------------------------------------------------------------

    def _check_parts(self) -> None:
        """Wait (by being put back) for parts that are not up; fail where one will never be."""
        with_spark = self.job.profile == "spark"
        if with_spark:
            self._check_spark_settings()
        read_status()
        if with_spark and not does_spark_listen():
            message = "The Spark engine is starting or away; the job begins when it answers."
            raise Unavailable(message, code="spark_down")

    def _check_spark_settings(self) -> None:
        if not settings.SPARK_REMOTE:
            message = "There is no Spark engine here: Spark transforms need Java 17 or 21, or SPARK_REMOTE."
            raise InvalidInput(message, code="no_spark")
        if not may_use_spark(self.job.repository):
            message = (
                f"Spark transforms of {self.job.repository} are kept off this installation's Spark cluster. "
                "An administrator can add the repository to TRIBUTARY_SPARK_REPOSITORIES."
            )
            raise InvalidInput(message, code="spark_kept_off")

    def _start(self, place: Place, allowance: Allowance) -> Handle:
        self.job.refresh_from_db()
        token = self._create_token(allowance)
        if self.job.kind == UPLOAD:
            return self._start_upload(place, token, allowance)
        return self._start_transform(place, token, allowance)

    def _start_transform(self, place: Place, token: str, allowance: Allowance) -> Handle:
        repository = repositories.repository_by_name(self.job.repository)
        root = trees.export(repository=repository, sha=self.job.sha)
        if self.job.profile == "spark":
            self._begin_spark_session()
        shared = self._spark_folders()
        previous = planning.find_previous_build(job=self.job)
        self._explain_full_build(previous)
        manifest = manifests.build_job_manifest(
            job=self.job,
            branch=self.build.branch,
            token=token,
            root=root,
            place=place,
            inputs=self._list_inputs(previous),
            outputs=self._targets,
            previous=previous,
            spark_folder=next(iter(shared), None),
            covers=used_files.list_covered(self.job.digest),
            endpoints=listed_endpoints(),
            prepared=self._prepare_inputs(),
            masked={target.path: sorted(see_keys(None, target.path).hidden) for target in self._targets},
        )
        return self._launch("run", manifest, place, allowance, code=root, cwd=root)

    def _explain_full_build(self, previous: PreviousBuild) -> None:
        """Add the reason of a full build to why the job runs; changed columns also restart jobs that read changelogs."""
        by_columns = previous.full in {FullBuild.OTHER_COLUMNS, FullBuild.NO_COLUMNS}
        if previous.is_first or not (self.job.is_incremental or by_columns):
            return
        note = f"Full build: {previous.why_full}"
        if previous.why_full and note not in self.job.why:
            self.job.why = f"{self.job.why}. {note}"[:500]
            self._held().update(why=self.job.why)

    def _prepare_inputs(self) -> dict[str, bytes]:
        """Return the catalog's answers about the inputs, which are pinned: the job need not ask for them.

        Spark asks for its tables itself.
        """
        if self.job.profile == "spark":
            return {}
        answers = {table: catalog_services.render_input(table=table, scope=self._scope) for table in self._scope.inputs}
        return {table: answer for table, answer in answers.items() if answer is not None}

    def _start_upload(self, place: Place, token: str, allowance: Allowance) -> Handle:
        (target,) = self._targets
        manifest = manifests.build_upload_manifest(
            job=self.job,
            branch=self.build.branch,
            token=token,
            place=place,
            target=target,
            staging=self._staging_branch,
            files=tuple(self._list_files()),
        )
        readable = [staged.file for staged in manifest.files]
        return self._launch("upload", manifest, place, allowance, readable=readable, cwd=place.folder)

    def _list_files(self) -> Iterator[StagedFile]:
        """Yield what an upload loads: the file that was sent, or those of the uploads that it repeats."""
        if not self.job.is_load:
            yield manifests.describe_sent_file(self.job.upload or {})
            return
        load = Load.from_json(self.job.upload or {})
        keeping.check_kept(load=load)
        yield from map(manifests.describe_kept_file, load.files)

    def _launch(
        self,
        entrypoint: str,
        manifest: object,
        place: Place,
        allowance: Allowance,
        *,
        cwd: Path,
        readable: Sequence[object] = (),
        code: Path | None = None,
    ) -> Handle:
        write_message(place.manifest, manifest)
        # The token in it is the job's own; nobody else can reach the folder, which lies in a closed home.
        place.manifest.chmod(0o644)
        own = self._open_own_folders()
        with_spark = self.job.profile == "spark"
        if with_spark:
            group = find_group(repository=self.job.repository, branch=self.build.branch)
            listings = self._spark_folders()
            for folder in listings:
                open_spark_folder(folder)
            read = [*manifests.find_folders(self._locations), *listings]
            self.loan = self.opened.enter_context(lent_spark(group=group, read=read, written=own))
        return launch(
            entrypoint,
            place.manifest,
            sandbox=manifests.build_sandbox(
                place=place,
                readable=[str(path) for path in readable],
                code=code,
                locations=self._locations,
                own=own,
                shared=self._spark_folders(),
                addresses=[settings.TRIBUTARY_CATALOG_URI, *([settings.SPARK_REMOTE] if with_spark else [])],
                with_spark=with_spark,
            ),
            limits=allowance.as_limits(),
            log_path=paths.log_path(self.job.pk),
            cwd=str(cwd),
        )

    def _open_own_folders(self) -> list[Path]:
        """Make the folders in which this attempt, and nobody else, writes files of its outputs."""
        return [
            folder
            for target in self._targets
            for folder in catalog_services.open_job_folders(table=target.table, folder=self._scope.folder)
        ]

    def _leave_own_folders(self) -> None:
        """Remove the files of an attempt that never commits; of another one its empty folders."""
        if not self.may_have_committed:
            self._remove_files()
        for target in self._list_targets():  # a dataset may have another name by now
            with suppress(
                AppError
            ):  # dropped meanwhile, and its folders with it; or damaged, and the collector finds them
                catalog_services.close_job_folders(table=target.table, folder=self._scope.folder)

    def _remove_files(self) -> None:
        """Remove the files of an attempt that never commits, unless they are removed already."""
        if not self.is_removed:
            leftovers.remove_files(self.job, attempt=self.attempt)
            self.is_removed = True

    def _spark_folders(self) -> list[Path]:
        """Return the folder in which a job lists files of an object store for Spark, where it can."""
        if self.job.profile != "spark" or not is_object_location(settings.TRIBUTARY_WAREHOUSE):
            return []
        folder = find_spark_folder(f"job-{self.job.pk}-{self.job.attempt}")
        return [folder] if folder is not None else []

    def _remove_spark_folders(self) -> None:
        for folder in self._spark_folders():
            remove_spark_folder(folder)

    def _begin_spark_session(self) -> None:
        self.job.spark_session = str(uuid.uuid4())
        self._held().update(spark_session=self.job.spark_session)

    def _create_token(self, allowance: Allowance) -> str:
        _, secret = account_services.create_token(
            user=self.build.by,
            name=f"job {self.job.pk}",
            expires_at=clock.shared_now() + timedelta(seconds=allowance.wall_s) + TOKEN_MARGIN,
            job_scope=self._scope,
        )
        return secret

    def _revoke_tokens(self) -> None:
        """End the token of this attempt: a later one can run by now."""
        account_services.revoke_job_tokens(job_id=self.job.pk, attempt=self.job.attempt)

    @cached_property
    def _scope(self) -> JobScope:
        """What this attempt may see and write: the same from its token to its end, whatever is renamed meanwhile."""
        inputs = {
            transaction_.dataset.table: {
                "transaction": transaction_.pk,
                "branch": job_input.branch,
                "snapshot_id": transaction_.snapshot_id,
                "schema_id": transaction_.schema_id,
                "spec_id": transaction_.spec_id,
                "order_id": transaction_.order_id,
            }
            for job_input, transaction_ in self._pinned
        }
        return JobScope(
            job_id=self.job.pk,
            branch=self._staging_branch,
            base_branch=self.build.branch,
            chain=tuple(self.build.chain),
            inputs=inputs,
            outputs=tuple(target.table for target in self._targets),
            attempt=self.job.attempt,
            repository=self._code_repository,
        )

    @property
    def _code_repository(self) -> str:
        """Name the repository whose rights its code has. An upload runs no code of users: it has those of the owner."""
        if self.job.kind == UPLOAD:
            return find_folder_owner(self.build.targets[0])
        return self.job.repository

    @cached_property
    def _staging_branch(self) -> str:
        return leftovers.find_staging(self.job)

    @cached_property
    def _pinned(self) -> list[tuple[JobInput, Transaction]]:
        inputs = _INPUTS.all(self.job.pk)
        return [(job_input, job_input.transaction) for job_input in inputs if job_input.transaction is not None]

    @cached_property
    def _locations(self) -> list[str]:
        """Where the tables are that it reads or writes."""
        tables = [transaction_.dataset.table for _, transaction_ in self._pinned]
        return [_locate(table) for table in [*tables, *(target.table for target in self._targets)]]

    def _list_inputs(self, previous: PreviousBuild) -> list[PinnedInput]:
        return [
            PinnedInput(
                name=job_input.name,
                path=job_input.path,
                table=transaction_.dataset.table,
                branch=job_input.branch,
                transaction=transaction_.pk,
                snapshot_id=transaction_.snapshot_id,
                since_snapshot_id=previous.snapshots.get(job_input.path),
            )
            for job_input, transaction_ in self._pinned
        ]

    @cached_property
    def _targets(self) -> list[OutputTarget]:
        return self._list_targets()

    def _list_targets(self) -> list[OutputTarget]:
        outputs = _TARGETS.all(self.job.pk)
        return [OutputTarget(row.name, row.path, row.dataset.table) for row in outputs if row.dataset is not None]

    # --- watch ------------------------------------------------------------------------------------

    def _may_go_on(self) -> bool:
        """Return whether the job is still this attempt's, nobody has cancelled it, and no disk runs out of space."""
        self.steps.look()
        state = self._held().values_list("state", flat=True).first()
        if state == JobState.ABORT_PENDING:
            self._say("cancelled: ending the process")
        if state == JobState.RUNNING:
            self.shortage = leftovers.explain_shortage(self.job)
        return state == JobState.RUNNING and not self.shortage

    def _beat(self, place: Place) -> None:
        progress = manifests.read_progress(place=place)
        if not progress or progress == self.job.progress:
            self._held().renew()
        elif self._held().renew(progress=progress):
            self.job.progress = progress

    def _held(self) -> JobRows:
        """Return the job as long as this attempt has it."""
        return Job.objects.held(self.job)

    def _interrupt_spark(self) -> None:
        """Tell the server to drop the session: a killed client leaves its query running there."""
        if not self.job.spark_session:
            return
        self._say("interrupting the Spark session")

        def beat() -> None:
            with suppress(*BUSY):
                self._held().renew()

        if not interrupts.interrupt_session(job=self.job, beat=beat):
            self._say("the Spark session did not end: the Spark server is to end and to start anew")

    # --- end --------------------------------------------------------------------------------------

    def _finish(self, result: JobResult, code: int, place: Place) -> None:
        if result.status == "ok":
            self._complete(result, place, staged=self._check_staged(place))
            return
        most = {CATALOG_BUSY: MAX_BUSY, LOST_COMMIT: MAX_LOST_COMMITS, CLOCK_BEHIND: MAX_BUSY}
        if result.error is not None and self.job.attempt < most.get(result.error.code, 0):
            is_behind = result.error.code == CLOCK_BEHIND
            why = "The clock of Spark is behind" if is_behind else "The catalog was busy or away for too long"
            self._put_back(f"{why}: {result.error.message}", lost=0)
            return
        self.steps.look()
        if self.steps.saw_step and self.job.attempt < MAX_BUSY:
            # Its token, its keys or the times in its metadata can have become invalid.
            self._put_back("The clock of the host was set while the job ran. It runs again.", lost=0)
            return
        # Whatever it says: files that it reads were removed with the snapshot.
        self._check_inputs()
        error = asdict(result.error) if result.error else {"message": "The job failed without saying why."}
        error["traceback"] = str(error.get("traceback", ""))[-RESULT_TRACEBACK:]
        self._fail(_name_place(error), code=str(error.get("code") or "failed"), error=error, exit_code=code)

    def _check_staged(self, place: Place) -> dict[str, Pointer | None]:
        """Return what was staged on each table: snapshots of frozen files of this attempt and of what was there before."""
        # Whoever else has the token, a query that Spark still runs for instance, commits nothing from here on.
        self._revoke_tokens()
        sealed = manifests.read_seal(place=place)
        staged: dict[str, Pointer | None] = {}
        for output in _STAGED.all(self.job.pk):
            opened = output.transaction
            if output.dataset is None or opened is None:
                continue
            table = output.dataset.table
            try:
                staged[table] = catalog_services.check_staged(
                    table=table,
                    staging=self._staging_branch,
                    folder=self._scope.folder,
                    sealed=sealed,
                    stands_on=None if self.job.is_into_open_transaction else self._list_heads(table, opened),
                )
            except AppError as problem:
                if self.job.is_into_open_transaction:
                    dataset_services.abort_transaction(transaction=opened, reason=problem.detail)
                raise
        return staged

    def _list_heads(self, table: str, opened: Transaction) -> set[int | None]:
        """Return the heads that an output may go on from: its transaction's, and what its branch reads by fallback."""
        pointers = [catalog.branch_pointer(table=table, branch=branch) for branch in self.build.chain]
        heads = {pointer.snapshot_id for pointer in pointers if pointer is not None}
        return heads | ({opened.parent.snapshot_id} if opened.parent is not None else set())

    def _complete(self, result: JobResult, place: Place, *, staged: Mapping[str, Pointer | None]) -> None:
        """Make the outputs visible, mark the job and ready the next ones in one step, unless it was taken away."""
        kept_upload = keeping.keep_file(job=self.job, branch=self.build.branch, beat=self._held().renew)
        self.may_have_committed = True  # a database that does not answer to COMMIT may have done it
        commit = partial(self._commit, result, staged, kept_upload)
        try:
            has_committed = keep_trying(commit, seconds=PATIENCE_S)
        except AppError:
            self.may_have_committed = self._has_completed()
            raise
        if not has_committed:
            self.may_have_committed = self._has_completed()
            # Cancelled between its last line and here: the cancellation wins, nothing is visible.
            self._give_way()
            return
        seals.keep_seal(place=place)
        for path, output in result.outputs.items():
            self._say(f"committed {output.rows:,} rows of {path} on {self.build.branch}")
        self._end("completed", 0)

    def _has_completed(self) -> bool:
        return Job.objects.filter(pk=self.job.pk, attempt=self.job.attempt, state=JobState.COMPLETED).exists()

    def _commit(self, result: JobResult, staged: Mapping[str, Pointer | None], kept_upload: KeptUpload | None) -> bool:
        with transaction.atomic():
            builds.lock_build(build=self.build)
            if not self._held().move(to=JobState.COMPLETED, finished_at=clock.now(), lease_until=None, reason=""):
                return False
            self._commit_outputs(result, staged)
            if kept_upload is not None:
                kept_upload.save(force_insert=True)
            self.job.refresh_from_db()
            signals.job_finished.send(sender=Job, job=self.job)
            builds.advance_build(build=self.build)
        return True

    def _commit_outputs(self, result: JobResult, staged: Mapping[str, Pointer | None]) -> None:
        outputs = _WRITTEN.all(self.job.pk)
        opened = [output.transaction for output in outputs if output.transaction is not None]
        if opened and not self.job.is_into_open_transaction:
            committed = dataset_services.commit_transactions(
                transactions=opened,
                branch=self.build.branch,
                staging=self.job.staging_branch,
                by=accounts.principal_for_user(self.build.by),
            )
            for row in committed:
                checked = staged[row.dataset.table] or row.parent
                if row.snapshot_id != (None if checked is None else checked.snapshot_id):
                    message = f"What was staged for {row.dataset.path} has changed after it was checked."
                    raise Conflict(message, code="foreign_files")
        # in one order: another job of the same code may be committing
        UsedFile.objects.bulk_create(
            [UsedFile(digest=self.job.digest, key=key) for key in sorted(result.used)], ignore_conflicts=True
        )
        inputs = set(self.job.inputs.values_list("path", flat=True))
        for output in outputs:
            written = result.outputs.get(output.path)
            if written is not None:
                summary = asdict(written)
                del summary["origins"]  # a table of its own keeps them: every list of outputs reads the summary
                output.summary = summary
                output.save(update_fields=["summary"])
                if columns := choose_sources(written.origins, inputs=inputs):
                    OutputColumns.objects.create(output=output, columns=columns)

    def _give_way(self) -> None:
        self._check_cancelled()
        self._abort()

    def _check_cancelled(self) -> None:
        """Give up unless it is this attempt that somebody has cancelled."""
        if not self._held().filter(state=JobState.ABORT_PENDING).exists():
            raise Fenced(f"Job {self.job.pk} was taken away.")

    def _abort(self) -> None:
        reason = Job.objects.values_list("reason", flat=True).get(pk=self.job.pk) or "Cancelled."
        self._end_job(state=JobState.ABORTED, reason=reason)
        self._end("aborted", 1)

    def _end_job(self, *, state: JobState, reason: str, error: Mapping[str, Any] | None = None) -> bool:
        """Bring the job to its end without a result, and say what follows for its build, in one step."""

        def act() -> bool:
            with transaction.atomic():
                builds.lock_outputs(build=self.build)
                ended = builds.end_job(job=self.job, state=state, reason=reason, error=error, attempt=self.job.attempt)
                if ended:
                    builds.advance_build(build=self.build)
            return ended

        return keep_trying(act, seconds=PATIENCE_S)

    def _fail(self, reason: str, *, code: str, error: Mapping[str, Any] | None = None, exit_code: int = 1) -> None:
        ended = self._end_job(
            state=JobState.FAILED, reason=reason, error={"message": reason, "code": code, **(error or {})}
        )
        if not ended:
            self._give_way()
            return
        self._say(f"failed: {reason}")
        self._say("transactions aborted, staging branch removed, readers saw nothing")
        self._end("failed", exit_code)

    def _retry(self, reason: str) -> bool:
        """Put the job back whose part died under it; return whether it may be tried once more."""
        if self.job.lost >= MAX_LOST:
            return False
        self._put_back(f"{reason} It is tried once more.", lost=1)
        return True

    def _check_inputs(self) -> None:
        """Refuse inputs whose transaction is gone: nothing that the job read of them counts."""
        if gone := pins.find_gone(job=self.job):
            raise InputsGone(" ".join(map(pins.describe_gone, gone)))

    def _check_code(self) -> None:
        """Refuse to run code from which columns were hidden after the build was planned."""
        paths = [*self.job.inputs.values_list("path", flat=True), *self.job.outputs.values_list("path", flat=True)]
        rights.check_code_of(self._code_repository, paths)

    def _read_newest(self) -> None:
        """Put the job back, to read the newest transactions in place of those that are gone; else let it fail."""

        def give_back() -> str:
            with transaction.atomic():
                builds.lock_build(build=self.build)
                if not self._held().give_back(reason="", due_at=clock.shared_now()):
                    return ""
                changes = pins.read_newest(job=self.job, gone=pins.find_gone(job=self.job))
                Job.objects.filter(pk=self.job.pk).update(reason=changes)
                queue.ring_job(self.job)
            return changes

        if self.job.attempt >= MAX_BUSY:
            self._fail(f"Inputs of the job kept expiring in {MAX_BUSY} attempts.", code=pins.INPUT_GONE)
            return
        try:
            changes = keep_trying(give_back, seconds=PATIENCE_S)
        except Conflict as error:
            self._fail(error.detail, code=error.code)
            return
        if not changes:
            self._give_way()
            return
        self._say(f"put back: {changes}")

    def _put_back(self, reason: str, *, lost: int) -> None:
        """Return the job to the queue: what it needs is not there now, the sweep rings again."""

        def give_back() -> int:
            with transaction.atomic():
                # A cancellation sees the job either running or waiting, never in between.
                builds.lock_build(build=self.build)
                return self._held().give_back(lost=lost, reason=reason, due_at=clock.shared_now() + PAUSE)

        if not keep_trying(give_back, seconds=PATIENCE_S):
            self._give_way()
        elif reason != self.waited_for:
            self._say(f"put back: {reason}")

    def _drop_staging(self) -> None:
        """Forget what an earlier attempt staged; an upload into somebody's transaction starts from what they staged."""
        if not self.job.is_into_open_transaction:
            tables = [target.table for target in self._list_targets()]
            catalog_services.drop_staging(tables=tables, staging=self.job.staging_branch)

    def _say(self, text: str) -> None:
        self.log.write(text, is_runner=True)

    def _end(self, reason: str, code: int) -> None:
        uploads.forget_staged_file(job=self.job, is_loaded=code == 0)
        self.log.end(reason, code)


def _locate(table: str) -> str:
    location: str = catalog.get_metadata(table=table)["location"]
    return location


def _explain_memory(total_memory_bytes: int, size: str) -> str:
    return (
        f"The job and all that it started held more than the {total_memory_bytes:,} bytes of memory of a job of size {size}, "
        "and were ended: read less at a time, or declare a larger size"
    )


def _explain_quota(disk_bytes: int, size: str) -> str:
    ended = (
        f"The job wrote more than {describe_size(disk_bytes)}, or more than {MOST_FILES:,} files, and was ended; "
        "its files are removed."
    )
    if disk_bytes < profiles.allow(size=size, disk_bytes=settings.TRIBUTARY_JOB_DISK_BYTES).disk_bytes:
        return f"{ended} That is what its repository may still hold by TRIBUTARY_REPOSITORY_DATA_BYTES."
    return (
        f"{ended} That is what a job of size {size} may write: write less, ask for a larger size with "
        "@configure(profile=...), or have an administrator raise TRIBUTARY_JOB_DISK_BYTES."
    )


def _name_place(error: Mapping[str, Any]) -> str:
    """Return the message with the place in the code that it came from."""
    place = f" ({error['file']}:{error['line']})" if error.get("file") else ""
    return f"{error['message']}{place}"
