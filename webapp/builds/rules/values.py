"""What a plan is made from and made of: plain frozen values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Self

from webapp.builds.rules.freshness import make_token
from webapp.builds.rules.loads import Load

MAX_TARGETS = 200
"""Datasets that one build may be asked for."""


@dataclass(frozen=True, slots=True)
class DeclaredInput:
    """One declared input of a transform."""

    name: str
    path: str
    branch: str | None = None


@dataclass(frozen=True, slots=True)
class DeclaredOutput:
    """One declared output of a transform."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Spec:
    """A published JobSpec and where it was published."""

    id: int
    repository: str
    branch: str
    sha: str
    function: str
    file: str
    line: int
    profile: str
    size: str
    digest: str
    inputs: tuple[DeclaredInput, ...]
    outputs: tuple[DeclaredOutput, ...]
    changed_sha: str = ""
    """The commit that brought this digest, for people to look at."""
    is_incremental: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Every dataset that it reads or makes."""
        return (*(planned.path for planned in self.inputs), *self.output_paths)

    @property
    def output_paths(self) -> tuple[str, ...]:
        """Every dataset that it makes."""
        return tuple(output.path for output in self.outputs)

    @property
    def place(self) -> str:
        """Name the transform so that its author finds it."""
        return f"{self.function} ({self.repository}, branch {self.branch})"


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest committed transaction of a dataset branch and, where a job made it, from what."""

    id: str
    branch: str
    by: str = ""
    """Who wrote it, where no transform did: by an upload, else by an Iceberg client."""
    is_upload: bool = False
    digest: str | None = None
    sha: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Path → transaction that the job read."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Key → value of the files that its digest's jobs used while they ran, at the job's commit."""

    @property
    def token(self) -> str:
        """What says whether its code is the same as other code; empty if no transform made it."""
        return make_token(self.digest, self.files) if self.digest else ""

    @property
    def writer(self) -> str:
        """What wrote it, where no transform did."""
        if not self.by:
            return "something else"
        return f"an upload by {self.by}" if self.is_upload else f"an Iceberg client of {self.by}"


@dataclass(frozen=True, slots=True)
class DatasetState:
    """Branches of one dataset as they stand when the plan is made."""

    path: str
    parents: Mapping[str, str | None] = field(default_factory=dict)
    committed: Mapping[str, Committed] = field(default_factory=dict)
    """Branch → what it shows; a branch without a committed transaction is absent."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a user asked to build."""

    chain: tuple[str, ...]
    targets: tuple[str, ...]
    upstream: bool = False
    force: bool = False
    forced: frozenset[str] = frozenset()
    """Outputs whose jobs run even when fresh; all of them with `force`."""
    pins: Mapping[str, Committed] = field(default_factory=dict)
    """Input path → what to read instead of the newest transaction of the chain."""
    loads: tuple[Load, ...] = ()
    """Uploads that are repeated before anything is made."""
    loaded: frozenset[str] = frozenset()
    """Digests of those that an earlier try has repeated."""

    @property
    def branch(self) -> str:
        """The build branch."""
        return self.chain[0]


@dataclass(frozen=True, slots=True)
class PlannedInput:
    """Where a job reads one input: a branch and either a transaction or the job that will make it."""

    name: str
    path: str
    branch: str
    transaction: str | None
    from_job: int | None
    fallback: bool


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """What a job writes; `is_new` says that the branch is made, off `parent` or as a root."""

    name: str
    path: str
    branch: str
    is_new: bool
    parent: str | None


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One transform in the plan, or one upload that is repeated; it runs or is fresh."""

    number: int
    spec: int
    """The published JobSpec; 0 of an upload that is repeated."""
    repository: str
    spec_branch: str
    sha: str
    function: str
    file: str
    line: int
    profile: str
    size: str
    digest: str
    is_incremental: bool
    is_fresh: bool
    why: str
    inputs: tuple[PlannedInput, ...]
    outputs: tuple[PlannedOutput, ...]

    @property
    def is_load(self) -> bool:
        """Whether it repeats an upload."""
        return self.spec == 0

    @property
    def after(self) -> tuple[int, ...]:
        """Numbers of the jobs that must complete first."""
        return tuple(sorted({planned.from_job for planned in self.inputs if planned.from_job is not None}))


class FullBuild(Enum):
    """On what grounds a job that could go on from its last build does not."""

    FIRST = "nothing was built before"
    FORCED = "the build was forced"
    OTHER_WRITER = "something other than this code wrote the outputs last"
    INPUT_STARTS_ANEW = "{path} does not go on from what the last build read"
    EXPIRED = "the snapshot of {path} that the last build read has expired"
    NO_COLUMNS = "the columns of {path} at the last build are no longer kept"
    OTHER_COLUMNS = "{change} in {path}"


@dataclass(frozen=True, slots=True)
class PreviousBuild:
    """What the outputs' last build read, for a job that may go on from there."""

    snapshots: Mapping[str, int]
    """Per input; empty means a full build."""
    full: FullBuild | None = None
    """On what grounds it is a full build."""
    path: str = ""
    """Of the input that it is for."""
    change: str = ""
    """Change of that input's columns since the last build."""

    @property
    def why_full(self) -> str:
        """Why it is a full build, in words; empty where it is none."""
        return self.full.value.format(path=self.path, change=self.change) if self.full else ""

    @property
    def is_first(self) -> bool:
        """Whether no output has ever been written."""
        return self.full is FullBuild.FIRST


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """Jobs in an order in which they may run, every input and output decided."""

    chain: tuple[str, ...]
    targets: tuple[str, ...]
    jobs: tuple[PlannedJob, ...]

    @property
    def branch(self) -> str:
        """The build branch."""
        return self.chain[0]

    @property
    def running_jobs(self) -> tuple[PlannedJob, ...]:
        """Jobs that are not fresh."""
        return tuple(job for job in self.jobs if not job.is_fresh)

    @property
    def written_paths(self) -> tuple[str, ...]:
        """Outputs whose transactions open at resolution, in the one order in which they are taken."""
        return tuple(sorted(output.path for job in self.running_jobs for output in job.outputs))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON values."""
        plan = asdict(self)
        plan["branch"] = self.branch
        for job, planned in zip(plan["jobs"], self.jobs, strict=True):
            job["after"] = list(planned.after)
        return plan

    @classmethod
    def from_json(cls, plan: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            chain=tuple(plan["chain"]),
            targets=tuple(plan["targets"]),
            jobs=tuple(_read_job(job) for job in plan["jobs"]),
        )

    def explain(self) -> str:
        """Return the plan as text for people."""
        lines = [f"Build on {' → '.join(self.chain)}, targets {', '.join(self.targets)}"]
        for job in self.jobs:
            verdict = "fresh, skipped" if job.is_fresh else "runs"
            lines.append(f"{job.number}. {', '.join(output.path for output in job.outputs)}: {verdict}. {job.why}")
            lines.append(f"   {_explain_maker(job)}, {job.profile} {job.size}")
            lines.extend(f"   reads {_explain_input(planned)}" for planned in job.inputs)
            lines.extend(f"   writes {_explain_output(output)}" for output in job.outputs if not job.is_fresh)
        return "\n".join(lines)


def _explain_maker(job: PlannedJob) -> str:
    if job.is_load:
        return f"loads {job.file}"
    return f"{job.function} ({job.file}:{job.line}), {job.repository} {job.spec_branch} {job.sha[:7]}"


def _explain_input(planned: PlannedInput) -> str:
    if planned.from_job is not None:
        return f"{planned.path} on {planned.branch}, made by job {planned.from_job}"
    fallback = " by fallback" if planned.fallback else ""
    return f"{planned.path} on {planned.branch}{fallback}, transaction {planned.transaction}"


def _explain_output(planned: PlannedOutput) -> str:
    if not planned.is_new:
        return f"{planned.path} on {planned.branch}"
    origin = f"new branch from {planned.parent}" if planned.parent else "new root branch"
    return f"{planned.path} on {planned.branch}, {origin}"


def _read_job(job: Mapping[str, Any]) -> PlannedJob:
    plain = {key: value for key, value in job.items() if key not in {"inputs", "outputs", "after"}}
    return PlannedJob(
        **plain,
        inputs=tuple(PlannedInput(**fields) for fields in job["inputs"]),
        outputs=tuple(PlannedOutput(**fields) for fields in job["outputs"]),
    )
