"""What a plan is made from, read in a handful of queries: JobSpecs, dataset branches, what made their transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.db.models import Case, Exists, IntegerField, OuterRef, When

from webapp.builds import permissions
from webapp.builds.models import RUN, UPLOAD, Build, Job, JobInput, PublishedInput, PublishedOutput, PublishedSpec
from webapp.builds.queries import used_files
from webapp.builds.queries.builds import list_tries
from webapp.builds.rules import plan as rules
from webapp.builds.rules.earlier_rows import find_change, list_added, list_fields
from webapp.builds.rules.fallback import CHAIN_INCOMPATIBLE, list_ways_out
from webapp.builds.rules.loads import Load
from webapp.builds.rules.states import JobState
from webapp.builds.rules.values import (
    BuildPlan,
    Committed,
    DatasetState,
    DeclaredInput,
    DeclaredOutput,
    FullBuild,
    PreviousBuild,
    Request,
    Spec,
)
from webapp.catalog import queries as catalog
from webapp.catalog.rules.iceberg import Schema
from webapp.catalog.rules.metadata import comes_from, snapshot_of
from webapp.core.errors import InvalidInput
from webapp.core.prepared import Prepared
from webapp.datasets.models import Dataset, DatasetBranch, Transaction
from webapp.datasets.rules.transactions import SNAPSHOT, TransactionState

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MAX_STEPS = 1000
"""A job that missed more transactions of its input than this is built in full."""


def describe_published(*, repository: Repository, branch: str) -> dict[str, dict[str, Any]]:
    """Return output path → digest and sorted inputs of what a repository has published on a branch."""
    inputs: dict[int, list[str]] = {}
    read = PublishedInput.objects.filter(spec__repository=repository, branch=branch).order_by("path")
    for spec, path in read.values_list("spec_id", "path"):
        inputs.setdefault(spec, []).append(path)
    outputs = PublishedOutput.objects.filter(spec__repository=repository, branch=branch).order_by("path")
    return {
        path: {"digest": digest, "inputs": inputs.get(spec, [])}
        for path, spec, digest in outputs.values_list("path", "spec_id", "spec__digest")
    }


def read_spec(row: PublishedSpec) -> Spec:
    """Return a published row as the value that planning takes."""
    body: Mapping[str, Any] = row.spec
    return Spec(
        id=row.pk,
        repository=row.repository.name,
        branch=row.branch,
        sha=row.sha,
        changed_sha=row.changed_sha,
        function=row.function,
        file=row.file,
        line=row.line,
        profile=row.profile,
        size=body.get("size", "small"),
        digest=row.digest,
        is_incremental=bool(body.get("incremental")),
        inputs=tuple(DeclaredInput(item["name"], item["path"], item.get("branch")) for item in body["inputs"]),
        outputs=tuple(DeclaredOutput(item["name"], item["path"]) for item in body["outputs"]),
    )


@dataclass(frozen=True)
class PlanVersion:
    """The rows that a plan was read from; while they are the same, so is the plan."""

    chain: tuple[str, ...]
    outputs: frozenset[str]
    """Paths whose makers were looked up."""
    makers: frozenset[tuple[Any, ...]]
    involved: frozenset[str]
    """Paths whose branches were looked up."""
    branches: frozenset[tuple[Any, ...]]

    def is_current(self) -> bool:
        """Return whether nothing of it has moved, in two queries."""
        return (
            _list_makers(self.outputs, self.chain) == self.makers
            and _list_branches(self.involved, self.chain) == self.branches
        )


def make_plan(*, build: Build, by: Principal) -> BuildPlan:
    """Plan a build for somebody on what is published and committed at this moment."""
    return make_versioned_plan(build=build, by=by)[0]


def make_versioned_plan(*, build: Build, by: Principal) -> tuple[BuildPlan, PlanVersion]:
    """Plan a build for somebody, and say what the plan was read from.

    The right to read the inputs is checked first: no other refusal may depend on datasets that somebody may not see.
    """
    request = read_request(build)
    specs, paths, makers = load_specs_above(request.targets, request.chain)
    permissions.check_inputs(by, rules.list_read_paths(specs=specs, request=request))
    involved = rules.list_involved_paths(specs=specs, request=request)
    branches = _list_branches(involved, request.chain)
    datasets = _describe_datasets(branches)
    try:
        plan = rules.make_plan(specs=specs, request=request, datasets=datasets, files=read_files(specs, datasets))
    except InvalidInput as error:
        if error.code == CHAIN_INCOMPATIBLE:
            dataset = Dataset.objects.values_list("pk", flat=True).get(path=error.extra["path"])
            error.extra["ways_out"] = list(list_ways_out(dataset=dataset, **error.extra))
        raise
    return plan, PlanVersion(request.chain, paths, makers, involved, branches)


def load_specs_above(
    paths: Collection[str], chain: Collection[str]
) -> tuple[tuple[Spec, ...], frozenset[str], frozenset[tuple[Any, ...]]]:
    """Return the JobSpecs that make these datasets or anything they are made from, step by step upwards.

    With them the paths whose makers were looked up, and the rows that say who makes them: what a plan depends on.
    """
    return _load_specs(paths, chain, lambda spec: spec.paths)


def load_makers(paths: Collection[str], chain: Collection[str]) -> tuple[Spec, ...]:
    """Return the JobSpecs that make these datasets, and those that make another of their outputs."""
    return _load_specs(paths, chain, lambda spec: spec.output_paths)[0]


def _load_specs(
    paths: Collection[str], chain: Collection[str], follow: Callable[[Spec], Iterable[str]]
) -> tuple[tuple[Spec, ...], frozenset[str], frozenset[tuple[Any, ...]]]:
    specs: dict[int, Spec] = {}
    makers: set[tuple[Any, ...]] = set()
    reached: set[str] = set()
    following = set(paths)
    while following:
        reached |= following
        new_makers = _list_makers(following, chain)
        makers |= new_makers
        new = {spec for _path, _branch, spec in new_makers} - specs.keys()
        rows = PublishedSpec.objects.filter(pk__in=new).select_related("repository")
        specs.update({row.pk: read_spec(row) for row in rows})
        following = {path for pk in new if pk in specs for path in follow(specs[pk])} - reached
    return tuple(specs[pk] for pk in sorted(specs)), frozenset(reached), frozenset(makers)


def list_below(
    paths: Iterable[str], chain: Sequence[str], *, repository: Repository | None = None, most: int | None = None
) -> list[str]:
    """Return what is made from these datasets, over any number of steps, nearest first, and not they themselves.

    Args:
        paths: where to begin.
        chain: the branches whose JobSpecs count, as a build on the first of them would use them.
        repository: whose JobSpecs count; without one, everybody's.
        most: so many datasets are enough.

    """
    begin = set(paths)
    below: dict[str, None] = {}
    level: Collection[str] = begin
    while level and (most is None or len(below) < most):
        readers = _list_readers(level, chain)
        if repository is not None:
            readers = readers.filter(spec__repository=repository)
        # What is known already stands in a level before, or is read twice: it takes no place of the others.
        new = readers.exclude(path__in=begin | below.keys()).values_list("path", flat=True).distinct().order_by("path")
        level = list(new if most is None else new[: most - len(below)])
        below.update(dict.fromkeys(level))
    return list(below)


def list_readers(path: str, chain: Sequence[str], *, most: int) -> list[str]:
    """Return what is made from a dataset in one step, by name, and not it itself."""
    readers = _list_readers([path], chain).exclude(path=path).order_by("path")
    return list(readers.values_list("path", flat=True).distinct()[:most])


@dataclass(frozen=True)
class Maker:
    """What makes a dataset on a chain of branches."""

    repository: str
    branch: str
    """Where its JobSpec was found."""
    function: str
    digest: str
    inputs: tuple[str, ...]


def find_makers(paths: Collection[str], chain: Sequence[str]) -> dict[str, Maker]:
    """Return what makes each of these datasets, without its JobSpec; what nothing makes is left out."""
    outputs = PublishedOutput.objects.filter(path__in=paths, branch__in=chain).alias(rank=rank_branches(chain))
    rows = outputs.order_by("-rank").values_list(
        "path", "spec_id", "spec__repository__name", "branch", "spec__function", "spec__digest"
    )
    first = {row[0]: row for row in rows}
    inputs: dict[int, tuple[str, ...]] = {}
    read = PublishedInput.objects.filter(spec__in={row[1] for row in first.values()}).order_by("path")
    for spec, path in read.values_list("spec_id", "path"):
        inputs[spec] = (*inputs.get(spec, ()), path)
    return {
        path: Maker(repository, branch, function, digest, inputs.get(spec, ()))
        for path, spec, repository, branch, function, digest in first.values()
    }


def rank_branches(chain: Sequence[str]) -> Case:
    """Return the place of a row's branch in a chain, for queries: what an earlier branch makes counts."""
    return Case(*(When(branch=branch, then=place) for place, branch in enumerate(chain)), output_field=IntegerField())


def _list_readers(paths: Collection[str], chain: Sequence[str]) -> QuerySet[PublishedOutput]:
    """Return the outputs of JobSpecs that read some of these datasets, but those that an earlier branch makes."""
    outputs = PublishedOutput.objects.filter(branch__in=chain).alias(rank=rank_branches(chain))
    earlier = outputs.filter(path=OuterRef("path"), rank__lt=OuterRef("rank"))
    return outputs.filter(~Exists(earlier), spec__inputs__path__in=paths, spec__inputs__branch__in=chain)


def _list_makers(paths: Collection[str], chain: Collection[str]) -> frozenset[tuple[Any, ...]]:
    rows = PublishedOutput.objects.filter(path__in=paths, branch__in=chain)
    return frozenset(rows.values_list("path", "branch", "spec_id"))


def read_request(build: Build) -> Request:
    """Return what was asked, pins resolved to their transactions."""
    pins: dict[str, Committed] = {}
    for path, transaction_id in build.pins.items():
        pinned = Transaction.objects.filter(
            pk=transaction_id, dataset__path=path, state=TransactionState.COMMITTED
        ).first()
        if pinned is None:
            message = f"{path} has no committed transaction {transaction_id} to read."
            raise InvalidInput(message, code="pin_missing", names=[path, transaction_id])
        pins[path] = Committed(id=pinned.pk, branch=pinned.branch_name)
    loads = read_loads(build)
    paths = {load.path for load in loads}
    return Request(
        chain=tuple(build.chain),
        targets=tuple(target for target in build.targets if target not in paths),
        upstream=build.upstream,
        force=build.force,
        forced=frozenset(build.forced),
        pins=pins,
        loads=tuple(loads),
        loaded=frozenset(_list_loaded(build, loads)),
    )


def read_loads(build: Build) -> list[Load]:
    """Return the uploads that a build repeats."""
    return [Load.from_json(load) for load in build.loads]


def _list_loaded(build: Build, loads: Sequence[Load]) -> list[str]:
    """Return which of these a try of the same build has repeated: what was loaded once is not loaded twice."""
    if not loads:
        return []
    jobs = Job.objects.filter(build__in=list_tries(build=build), kind=UPLOAD, state=JobState.COMPLETED)
    return list(jobs.filter(digest__in=[load.digest for load in loads]).values_list("digest", flat=True))


def read_files(specs: Iterable[Spec], datasets: Mapping[str, DatasetState]) -> rules.SpecFiles:
    """Return what the files are at the commits of JobSpecs that earlier jobs of the same digests used while they ran."""
    files: dict[int, Mapping[str, str]] = {}
    for spec in specs:
        states = [datasets[path] for path in spec.output_paths if path in datasets]
        visible = [committed for state in states for committed in state.committed.values()]
        keys = {key for committed in visible if committed.digest == spec.digest for key in committed.files}
        if keys:
            files[spec.id] = used_files.read_values((spec.repository, spec.sha), keys)
    return files


def load_datasets(*, paths: Collection[str], branches: Collection[str]) -> dict[str, DatasetState]:
    """Return branches and, for the branches of the chain, what they show and from what it was made."""
    return _describe_datasets(_list_branches(paths, branches))


def _list_branches(paths: Collection[str], chain: Collection[str]) -> frozenset[tuple[Any, ...]]:
    """Return every branch of these datasets with its parent and, on the chain, the transaction that readers see."""
    rows = DatasetBranch.objects.filter(dataset__path__in=paths).values_list(
        "dataset__path",
        "name",
        "parent__name",
        "transaction_id",
        "transaction__state",
        "transaction__parent_id",
    )
    return frozenset(
        # What is open is not visible: readers see the transaction that it stands on.
        (
            path,
            name,
            parent,
            (transaction_id if state == TransactionState.COMMITTED else before_id) if name in chain else None,
        )
        for path, name, parent, transaction_id, state, before_id in rows
    )


def _describe_datasets(branches: Iterable[tuple[Any, ...]]) -> dict[str, DatasetState]:
    parents: dict[str, dict[str, str | None]] = {}
    shown: dict[str, dict[str, str]] = {}
    for path, name, parent, visible in branches:
        parents.setdefault(path, {})[name] = parent
        if visible is not None:
            shown.setdefault(path, {})[name] = visible
    committed = describe_transactions({pk for by_branch in shown.values() for pk in by_branch.values()})
    return {
        path: DatasetState(
            path=path,
            parents=parents[path],
            committed={
                branch: replace(committed[transaction_id], branch=branch)
                for branch, transaction_id in shown.get(path, {}).items()
            },
        )
        for path in parents
    }


def describe_transactions(ids: Iterable[str]) -> dict[str, Committed]:
    """Return for each transaction the job that made it, its digest and the transactions that it read."""
    transactions = Transaction.objects.in_bulk(list(ids))
    jobs = Job.objects.in_bulk([transaction.job_id for transaction in transactions.values() if transaction.job_id])
    read = _list_inputs(jobs)
    used = used_files.list_used({job.digest for job in jobs.values() if job.kind == RUN})
    return {
        key: _describe(transaction, jobs.get(transaction.job_id), read, used)
        for key, transaction in transactions.items()
    }


_JOBS_OF = Prepared(lambda ids: Transaction.objects.filter(pk__in=ids).order_by().values_list("pk", "job_id"), list)
_INPUTS = Prepared(
    lambda jobs: (
        JobInput.objects.filter(job__in=jobs, transaction__isnull=False)
        .exclude(job__kind=UPLOAD)
        .values_list("job_id", "path", "transaction_id")
    ),
    list,
)


def list_read(ids: Collection[str]) -> dict[str, Mapping[str, str]]:
    """Return for each transaction those that its job read, by the path of the input."""
    jobs = dict(_JOBS_OF.all(ids))
    read = _list_inputs(set(jobs.values()) - {""})
    return {pk: read.get(job, {}) for pk, job in jobs.items()}


def _list_inputs(jobs: Collection[str]) -> dict[str, dict[str, str]]:
    """Return for each job that is no upload the transactions that it read, by the path of the input."""
    read: dict[str, dict[str, str]] = {}
    for job, path, transaction in _INPUTS.all(jobs):
        read.setdefault(job, {})[path] = transaction
    return read


def _describe(
    transaction: Transaction,
    job: Job | None,
    read: Mapping[str, Mapping[str, str]],
    used: Mapping[str, Collection[str]],
) -> Committed:
    if job is None or job.kind == UPLOAD:
        return Committed(transaction.pk, transaction.branch_name, by=transaction.by, is_upload=job is not None)
    return Committed(
        id=transaction.pk,
        branch=transaction.branch_name,
        digest=job.digest,
        sha=job.sha,
        inputs=dict(read.get(job.pk, {})),
        files=used_files.read_values((job.repository, job.sha), used.get(job.digest, ())),
    )


def find_token(*, transaction: Transaction) -> str:
    """Return what says whether code is the same as that which made a transaction; empty when no transform did."""
    job = Job.objects.filter(pk=transaction.job_id, kind=RUN).first() if transaction.job_id else None
    return _read_token(job) if job else ""


def find_loaded(*, heads: Mapping[str, Transaction]) -> dict[str, str]:
    """Return who loaded what some of these show, path → user: nobody's transform made it, or all of what it adds to.

    Args:
        heads: dataset path → newest committed transaction of a branch; those of other branches do not count.

    """
    owners = {head.dataset_branch_id: path for path, head in heads.items()}
    rows = Transaction.objects.filter(dataset_branch__in=owners, state=TransactionState.COMMITTED).order_by(
        "dataset_branch", "-number"
    )
    written = list(rows.values_list("dataset_branch", "job_id", "type", "by"))
    uploads = set(
        Job.objects.filter(pk__in={job for _, job, _, _ in written if job}, kind=UPLOAD).values_list("pk", flat=True)
    )
    loaded: dict[str, str] = {}
    replaced: set[int] = set()
    for branch, job, type_, by in written:
        if job and job not in uploads:
            # A build that replaces all rows leaves nothing of what was loaded before it.
            replaced.update({branch} if type_ == SNAPSHOT else ())
        elif branch not in replaced:
            loaded.setdefault(owners[branch], by)
    return loaded


def find_previous_build(*, job: Job) -> PreviousBuild:
    """Find where an incremental job goes on.

    It is a full build if the job is forced, if its code changed, if an output was last written by anything else, or if
    the rows that an input had at the last build are gone or read differently now.
    """
    outputs = list(job.outputs.select_related("transaction__parent"))
    before = [output.transaction.parent if output.transaction else None for output in outputs]
    if not any(before):
        return PreviousBuild({}, FullBuild.FIRST)
    if job.build.force or any(output.path in job.build.forced for output in outputs):
        return PreviousBuild({}, FullBuild.FORCED)
    jobs = {parent.job_id if parent else "" for parent in before}
    previous = Job.objects.filter(pk=jobs.pop(), kind=RUN, digest=job.digest).first() if len(jobs) == 1 else None
    if previous is None or _read_token(previous) != _read_token(job):
        return PreviousBuild({}, FullBuild.OTHER_WRITER)
    then = {job_input.path: job_input.transaction for job_input in previous.inputs.select_related("transaction")}
    snapshots: dict[str, int] = {}
    for job_input in job.inputs.select_related("transaction__dataset"):
        old, new = then.get(job_input.path), job_input.transaction
        if old is None or new is None or old.snapshot_id is None or not _descends(new, old):
            return PreviousBuild({}, FullBuild.INPUT_STARTS_ANEW, job_input.path)
        if old.pk != new.pk and (full := _compare_input(new, old)) is not None:
            return replace(full, path=job_input.path)
        snapshots[job_input.path] = old.snapshot_id
    return PreviousBuild(snapshots)


def _read_token(job: Job) -> str:
    [code] = used_files.read_code(job.repository, (job.sha, {"": job.digest}))
    return code.tokens[""]


def _compare_input(new: Transaction, old: Transaction) -> PreviousBuild | None:
    """Return a full build if the rows of an earlier transaction are not part of a later one as they were."""
    metadata = catalog.get_metadata(table=new.dataset.table)
    if old.snapshot_id is None or snapshot_of(metadata, old.snapshot_id) is None:
        return PreviousBuild({}, FullBuild.EXPIRED)
    if not comes_from(metadata["snapshots"], new.snapshot_id, old.snapshot_id):
        # A client has set the table back.
        return PreviousBuild({}, FullBuild.INPUT_STARTS_ANEW)
    schemas = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    if old.schema_id not in schemas or new.schema_id not in schemas:
        return PreviousBuild({}, FullBuild.NO_COLUMNS)
    before, after = schemas[old.schema_id], schemas[new.schema_id]
    added = list_added(before, after)
    change = find_change(before, after, returning=added if _had_columns(old, schemas, added) else ())
    return PreviousBuild({}, FullBuild.OTHER_COLUMNS, change=change) if change else None


def _had_columns(until: Transaction, schemas: Mapping[int, Schema], columns: AbstractSet[int]) -> bool:
    """Return whether the dataset may have had some of these columns up to a transaction, by their field ids."""
    lacking = [number for number, schema in schemas.items() if not list_fields(schema) & columns]
    earlier = Transaction.objects.filter(
        dataset=until.dataset_id, state=TransactionState.COMMITTED, started_at__lte=until.closed_at
    )
    return bool(columns) and earlier.exclude(schema_id__in=lacking).exists()


def _descends(transaction: Transaction, ancestor: Transaction) -> bool:
    current: Transaction | None = transaction
    for _ in range(MAX_STEPS):
        if current is None or current.pk == ancestor.pk:
            break
        current = current.parent
    return current is not None and current.pk == ancestor.pk
