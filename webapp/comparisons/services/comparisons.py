"""Stored row diffs: asked for once, run by a worker in a sandboxed process, kept as an immutable artifact."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet

from jobs.protocol import write_message
from webapp.accounts.services import record_audit
from webapp.catalog import queries as catalog
from webapp.comparisons.diffs.schema import diff_artifact
from webapp.comparisons.models import Comparison, ComparisonRows
from webapp.comparisons.queries.artifacts import artifact_folder
from webapp.comparisons.rules.dataset_rules import ComparisonRules
from webapp.comparisons.rules.states import ComparisonState
from webapp.comparisons.services import spark
from webapp.comparisons.services.answers import ANSWER, read_json, read_result
from webapp.comparisons.services.requests import REQUESTS, Work
from webapp.core import clock
from webapp.core.databases import BUSY, keep_trying
from webapp.core.errors import AppError
from webapp.dispatch.failures import PATIENCE_S, named_failures, settled_failures
from webapp.dispatch.fair_slots import FairSlots
from webapp.dispatch.leases import MAX_LOST, list_stamps, ring_forgotten
from webapp.dispatch.processes import Ending, Handle, ProcessEnd, Sandbox, launch, watch
from webapp.dispatch.sweeps import Turns
from webapp.runtime import doorbell
from webapp.runtime.folders import make_open_folder, remove_folder
from webapp.runtime.hosts import find_hosts
from webapp.runtime.room import wait_for_room
from webapp.runtime.spark_folders import open_spark_folder

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction

COMPARE_TASK = "webapp.pulls.tasks.compare"
"""Named as the release before names it: its workers hear the ring too."""
turns = Turns()
SLOTS = FairSlots(4)
"""Comparisons that run at a time in one worker."""
STAMPS = list_stamps(Comparison.objects.all)
LIMITS = {
    "memory_bytes": 6 * 1024**3,
    "cpu_s": 1800,
    "nproc": 256,
    "fsize": 8 * 1024**3,
    "disk_bytes": 64 * 1024**3,
    "total_memory_bytes": 4 * 1024**3,
}
VERSION = 3
"""Of what a row diff says of two transactions under rules: counted up where that changes, so that it is computed anew."""
ENDED = (0, 1, 2)
"""Exit codes of a process that ended by itself."""


def request_comparison(
    *, dataset: Dataset, before: Transaction | None, after: Transaction | None, rules: ComparisonRules, by: int | None
) -> Comparison:
    """Find or make the comparison of two transactions under the rules; a new one is queued."""
    comparison = find_comparison(dataset=dataset, before=before, after=after, rules=rules)
    if comparison is not None:
        return comparison
    body = rules.as_json()
    identity = identify(dataset, before, after, body)
    schema = describe_schema(dataset=dataset, before=before, after=after)
    with transaction.atomic():
        comparison, created = Comparison.objects.get_or_create(
            identity=identity,
            defaults={
                "dataset": dataset,
                "before": before,
                "after": after,
                "rules": body,
                "schema": schema,
                "by_id": by,
            },
        )
        if created:
            ring_comparison(comparison)
    return comparison


def find_comparison(
    *, dataset: Dataset, before: Transaction | None, after: Transaction | None, rules: ComparisonRules
) -> Comparison | None:
    """Find the comparison of two transactions under the rules, in whatever state."""
    return Comparison.objects.filter(identity=identify(dataset, before, after, rules.as_json())).first()


def identify(dataset: Dataset, before: Transaction | None, after: Transaction | None, rules: dict[str, Any]) -> str:
    """Return the name of what is compared: the same for whoever asks, so that it is computed once."""
    ends = [dataset.pk, before.pk if before else None, after.pk if after else None]
    return hash_identity([VERSION, *ends, rules])


def hash_identity(parts: list[Any]) -> str:
    """Return the name under which an answer to such a question is stored."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def describe_schema(*, dataset: Dataset, before: Transaction | None, after: Transaction | None) -> dict[str, Any]:
    """Describe both ends' schema, partition spec and sort order, and the verdict: cheap, so made at the request."""
    metadata = catalog.get_metadata(table=dataset.table)
    ends = {"before": _end(metadata, before), "after": _end(metadata, after)}
    diff = diff_artifact(ends)
    return {**ends, "status": diff.status, "changes": diff.count, "breaking": diff.breaking}


def _end(metadata: Mapping[str, Any], side: Transaction | None) -> dict[str, Any] | None:
    if side is None:
        return None

    def find(kind: str, name: str, number: int | None) -> Any:
        return next((entry for entry in metadata.get(kind, ()) if entry.get(name) == number), None)

    return {
        "schema": find("schemas", "schema-id", side.schema_id),
        "partition_spec": find("partition-specs", "spec-id", side.spec_id),
        "sort_order": find("sort-orders", "order-id", side.order_id),
    }


def ring_comparison(comparison: Comparison) -> None:
    """Ask a worker to run it once the current changes are committed."""
    transaction.on_commit(lambda: doorbell.ring(COMPARE_TASK, queue="quick", id=comparison.pk))


def rerun_comparison(
    *, comparison: Comparison, by: Principal | None, of: ComparisonState = ComparisonState.FAILED
) -> None:
    """Queue a failed comparison again, or one whose stored answer is lost (`of` READY)."""
    with transaction.atomic():
        record_audit(by=by, verb="rerun_comparison", object=comparison.dataset.path)
        if Comparison.objects.filter(pk=comparison.pk).move(
            to=ComparisonState.QUEUED,
            was=of,
            lost=0,
            code="",
            error="",
            progress={},
            created_at=clock.now(),
            rung_at=clock.now(),
            **({} if by is None else {"by_id": by.user_id}),
        ):
            ring_comparison(comparison)


def cancel_comparison(*, comparison: Comparison, by: Principal) -> None:
    """Stop a comparison that waits or runs; its worker notices within a moment."""
    with transaction.atomic():
        Comparison.objects.filter(pk=comparison.pk).move(
            to=ComparisonState.FAILED,
            code="cancelled",
            error=f"{by.username} cancelled the comparison.",
            finished_at=clock.now(),
        )
        record_audit(by=by, verb="cancel_comparison", object=comparison.dataset.path)


def sweep_comparisons() -> int:
    """Ring again for what waits too long, and take over what a dead worker held."""
    taken_over = _take_over_lost_comparisons() if turns.begin() else 0
    ring_forgotten(Comparison.objects.order_by("created_at"), ring_comparison, queue="quick")
    return taken_over


def _take_over_lost_comparisons() -> int:
    lost = Comparison.objects.lost()
    failed = lost.filter(lost__gte=MAX_LOST).move(
        to=ComparisonState.FAILED,
        code="crashed",
        error="The worker died twice while it compared. Run it again.",
        finished_at=clock.now(),
    )
    return failed + lost.retry()


def run_comparison(*, comparison_id: int) -> None:
    """Run one queued comparison to its end. A second worker that rings for it does nothing."""
    comparison = Comparison.objects.free().filter(pk=comparison_id).first()
    if comparison is None:
        return
    with SLOTS.taking(comparison.by_id) as is_taken:
        if not is_taken or not Comparison.objects.claim(comparison, started_at=clock.now()):
            return
        held = Comparison.objects.held(comparison)

        def put_back() -> int:
            return held.give_back(created_at=clock.now())

        give_up = partial(_give_up, held)
        with settled_failures("The comparison could not be run", held, give_up=give_up, put_back=put_back):
            _run(comparison, held)
    waiting = Comparison.objects.free().exclude(pk=comparison.pk).order_by("created_at")
    following = next(SLOTS.in_turn(waiting, user="by"), None)
    if following is not None:
        ring_comparison(following)


def _give_up(held: ComparisonRows, error: AppError) -> None:
    def fail() -> int:
        return held.move(to=ComparisonState.FAILED, code="crashed", error=error.detail, finished_at=clock.now())

    keep_trying(fail, seconds=PATIENCE_S)


def _run(comparison: Comparison, held: ComparisonRows) -> None:
    wait_for_room()
    folder = artifact_folder(comparison)
    remove_folder(folder)
    make_open_folder(folder)
    work = REQUESTS[comparison.kind](comparison, folder, folder / ANSWER)
    manifest = folder / "request.json"
    write_message(manifest, work.message)
    manifest.chmod(0o644)
    is_killed = False
    if work.spark is not None:
        open_spark_folder(Path(work.spark.folder))
    try:
        with ExitStack() as lent, closing(_launch(work, manifest, folder)) as handle:
            is_killed = True  # closing it does that, unless it is seen to end by itself
            lending = spark.Lending(work.spark, work.table_folder, lent)
            look = _ProcessLook(folder / "progress.json", held, lending)
            end = watch(handle, seconds=work.time_limit_s, look=look, beat=held.renew)
            is_killed = end.ending is not Ending.EXITED or end.code not in ENDED
            end = end.with_spark(lending.loan)
    finally:
        if work.spark is not None:
            spark.withdraw_spark(work.spark, is_killed=is_killed, beat=lambda: _keep_lease(held))
        if work.spark is not None or not work.table_folder:
            manifest.unlink(missing_ok=True)  # the artifact is kept for long; keys and tokens are not
    with named_failures("What the comparison answered could not be stored"):
        _finish(end, held, folder, time_limit_s=work.time_limit_s)


def _launch(work: Work, manifest: Path, folder: Path) -> Handle:
    return launch(
        work.entrypoint,
        manifest,
        sandbox=Sandbox(
            readonly=[work.table_folder] if work.table_folder else [],
            writable=[str(folder), *([work.spark.folder] if work.spark else [])],
            # files of this machine need no network; those of an object store do, and so does Spark
            hosts=find_hosts([settings.SPARK_REMOTE] if work.spark else ()),
        ),
        limits=LIMITS,
        log_path=folder / "log",
        cwd=str(folder),
    )


@dataclass
class _ProcessLook:
    """What is looked at while the process runs: whether it may go on, how far it is, whether it asks for Spark."""

    path: Path
    """Where it writes how far it is."""
    held: ComparisonRows
    lending: spark.Lending
    progress: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> bool:
        progress = read_json(self.path)
        self.lending.look(progress)
        if not progress or progress == self.progress:
            return self.held.is_running()
        self.progress = progress
        return self.held.renew(progress=progress)


def _keep_lease(held: ComparisonRows) -> None:
    with suppress(*BUSY):  # it lasts for a while
        held.renew()


def _finish(end: ProcessEnd, held: ComparisonRows, folder: Path, *, time_limit_s: float) -> None:
    if end.ending is Ending.WITHDRAWN:
        return
    if end.ending in {Ending.LOST, Ending.SPARK_LOST} and held.retry():
        return  # the job runner or Spark died, not the comparison: the sweep rings for it again
    result = read_result(end, folder, noun="The comparison", limits=LIMITS, time_limit_s=time_limit_s)
    now = clock.now()
    if result.status == "ok":
        summary = read_json(folder / "summary.json") or dict(result.summary)
        held.move(to=ComparisonState.READY, summary=summary, finished_at=now, progress={})
        return
    if held.is_running():
        remove_folder(folder)  # at once: what it has written takes disk space, and is shown nowhere
    message = result.message or str(result.code)
    held.move(to=ComparisonState.FAILED, code=result.code or "crashed", error=message, finished_at=now)


def prune_comparisons(*, older_than: timedelta = timedelta(days=30)) -> int:
    """Remove artifacts that nobody above keeps."""
    unused = Comparison.objects.filter(finished_at__lt=clock.cautious_now() - older_than)
    for keep in _keepers:
        unused = unused.filter(~Q(pk__in=keep()))
    return unused.order_by("finished_at").prune(artifact_folder)


def register_keeper(keep: Callable[[], QuerySet[Any, Any]]) -> None:
    """Add a query for ids of comparisons that an app above shows, however old; call it from `AppConfig.ready`."""
    if keep not in _keepers:
        _keepers.append(keep)


_keepers: list[Callable[[], QuerySet[Any, Any]]] = []
