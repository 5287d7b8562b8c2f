"""Published JobSpecs, builds, their jobs with every input and output."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.conf import settings
from django.db import models

from webapp.builds.rules.plan import join_words
from webapp.builds.rules.states import BUILD_ENDS, JOB_ENDS, BuildState, JobState
from webapp.core import clock, ids
from webapp.core.moves import Moves, StateField
from webapp.dispatch.leases import Leases
from webapp.repositories.models import commit_key

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object

RUN = "run"
UPLOAD = "upload"
BRANCH_LENGTH = 220
"""A branch name of people has at most 200 characters; staging and review branches add a prefix."""


class PublishedSpec(models.Model):
    """A JobSpec as the newest good commit of a branch declares it."""

    repository = models.ForeignKey("repositories.Repository", on_delete=models.CASCADE, related_name="jobspecs")
    branch = models.CharField(max_length=BRANCH_LENGTH)
    sha = models.CharField(max_length=40)
    """The commit whose code runs."""
    commit = commit_key("sha")
    changed_sha = models.CharField(max_length=40)
    """The commit that brought its digest."""
    changed_in = commit_key("changed_sha")
    function = models.CharField(max_length=400)
    file = models.CharField(max_length=1000)
    line = models.PositiveIntegerField()
    profile = models.CharField(max_length=20)
    digest = models.CharField(max_length=128)
    spec = models.JSONField()
    """The whole protocol value: inputs, outputs, checks, size, incremental, description."""

    class Meta(TypedModelMeta):
        indexes: ClassVar = [
            models.Index(fields=["branch", "repository"]),
            models.Index(fields=["digest"], name="published_by_digest"),
        ]
        ordering: ClassVar = ["function"]

    def __str__(self) -> str:
        return f"{self.function} on {self.branch}"

    @property
    def declared_inputs(self) -> frozenset[str]:
        """The datasets that it reads."""
        return frozenset(entry["path"] for entry in self.spec["inputs"])


class PublishedOutput(models.Model):
    """One dataset that a JobSpec makes; a branch has one maker for it, over all repositories."""

    spec = models.ForeignKey(PublishedSpec, on_delete=models.CASCADE, related_name="outputs")
    branch = models.CharField(max_length=BRANCH_LENGTH)
    path = models.CharField(max_length=500)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["path", "branch"], name="published_one_maker_per_branch"),
        ]

    def __str__(self) -> str:
        return f"{self.path} on {self.branch}"


class PublishedInput(models.Model):
    """One dataset that a JobSpec reads, as `PublishedSpec.spec` says: here it is looked up who reads a dataset."""

    spec = models.ForeignKey(PublishedSpec, on_delete=models.CASCADE, related_name="inputs", db_constraint=False)
    branch = models.CharField(max_length=BRANCH_LENGTH)
    path = models.CharField(max_length=500)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["path", "branch", "spec"], name="published_input_once"),
        ]

    def __str__(self) -> str:
        return f"{self.path} on {self.branch}"


class CodeColumns(models.Model):
    """What the code of a digest asks its inputs for, and which of its words may name columns; the same on any branch."""

    digest = models.CharField(max_length=128, unique=True)
    inputs = models.JSONField()
    """Path → the columns that it asks for, and whether that is all that it reads of the input."""
    words = models.JSONField(null=True)
    """In small letters; None where they are too many."""
    covers = models.JSONField(default=list, db_default=[])
    """Keys of the modules and files that the digest covers (`jobs/transforms/trace.py`)."""

    def __str__(self) -> str:
        return f"columns of {self.digest[:12]}"


class UsedFile(models.Model):
    """A file that jobs of a digest used while they ran, beyond what the digest covers."""

    digest = models.CharField(max_length=128)
    key = models.CharField(max_length=4100)
    """As in `jobs/transforms/trace.py`."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["digest", "key"], name="used_file_once")]

    def __str__(self) -> str:
        return f"{self.key} of {self.digest[:12]}"


class ModuleFingerprint(models.Model):
    """What a module's code is, whatever its comments and layout."""

    blob = models.CharField(max_length=40, unique=True)
    """Git's name of its text."""
    fingerprint = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"module {self.blob[:12]}"


class BuildRows(Moves["Build"]):
    """Builds."""


class JobRows(Leases["Job"]):
    """Jobs."""

    lease = timedelta(seconds=20)
    """Starting the process waits at most fork_server.START_SECONDS."""
    waits = JobState.RUN_PENDING
    runs = JobState.RUNNING
    ending = frozenset({JobState.ABORT_PENDING})

    def free(self) -> Self:
        """Return those that a worker may take now."""
        return super().free().exclude(due_at__gt=clock.statement_now())


class Build(models.Model):
    """One run over targets on one branch."""

    kind = models.CharField(max_length=10, default=RUN)
    branch = models.CharField(max_length=BRANCH_LENGTH, db_index=True)
    chain = models.JSONField()
    targets = models.JSONField()
    upstream = models.BooleanField(default=False)
    force = models.BooleanField(default=False)
    forced = models.JSONField(default=list)
    """Outputs that run even when fresh: what a retried forced build had not finished."""
    pins = models.JSONField(default=dict)
    """Input path → transaction to read instead of the newest one."""
    loads = models.JSONField(default=list, db_default=[])
    """Uploads of other branches that are repeated here before anything is made (`rules.loads`)."""
    repository = models.ForeignKey(
        "repositories.Repository",
        null=True,
        on_delete=models.SET_NULL,
        related_name="builds",
    )
    sha = models.CharField(max_length=40, blank=True)
    """Head of the build branch in the repository when the plan was made."""
    commit = commit_key("sha", related_name="builds")
    code_sha = models.CharField(max_length=40, blank=True, db_default="")
    """Commit whose JobSpecs count before those of the chain, on a branch that Git does not have; empty: the chain's."""
    code_commit = commit_key("code_sha")
    title = models.CharField(max_length=250, blank=True)
    state = StateField(max_length=10, default=BuildState.RESOLVING)
    code = models.CharField(max_length=50, blank=True)
    reason = models.TextField(blank=True)
    """Why it failed or what resolution waits for."""
    waits_for_branch = models.CharField(max_length=BRANCH_LENGTH, blank=True, db_default="")
    """The branch of its chain whose JobSpecs resolution waits for; who publishes them rings the build."""
    notes = models.JSONField(default=list)
    """Warnings of the planner, such as that old JobSpecs are used because publication failed."""
    plan = models.JSONField(null=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    is_trusted = models.BooleanField(default=False)
    """Started by an operation that checked the rights itself: a merge builds what its author may not write directly."""
    trigger = models.CharField(max_length=40, default="user")
    """What started it, of `rules.triggers`."""
    retry_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="retries")
    cancel_requested = models.BooleanField(default=False)
    turn = models.PositiveBigIntegerField(default=0)
    """Its place in the order in which users take turns; 0 once it is over without having taken a worker."""
    has_begun = models.BooleanField(default=False)
    """Whether a worker took a job of it."""
    created_at = models.DateTimeField(default=clock.now)
    rung_at = models.DateTimeField(default=clock.now)
    """When its doorbell last rang by the sweep, which rings again what waits too long."""
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, db_index=True)

    objects = BuildRows.as_manager()

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            models.Index(fields=["repository", "branch", "-id"]),
            models.Index(fields=["state", "turn"], name="build_by_turn"),
            models.Index(fields=["by", "turn"], name="build_last_turn"),
            models.Index(fields=["has_begun", "turn"], name="build_served_turn"),
            models.Index(fields=["by", "state", "created_at"], name="build_of_user"),
        ]

    def __str__(self) -> str:
        return f"build {self.pk}"

    @property
    def is_over(self) -> bool:
        """Whether nothing of it moves any more."""
        return self.state in BUILD_ENDS

    @property
    def shown_title(self) -> str:
        """What pages call it: its title, or what it makes where it has none."""
        return self.title or f"Build of {join_words(self.targets[:3])}"


class QueuedOutput(models.Model):
    """One dataset that a build waits to write: all its outputs' places in their queues, until it runs or is over."""

    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="queued")
    dataset = models.ForeignKey("datasets.Dataset", on_delete=models.CASCADE, related_name="+")
    branch = models.CharField(max_length=BRANCH_LENGTH)
    turn = models.PositiveBigIntegerField()
    """The build's."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["build", "dataset"], name="queued_output_once")]
        indexes: ClassVar = [models.Index(fields=["dataset", "branch", "turn", "build"], name="queued_output_order")]

    def __str__(self) -> str:
        return f"build {self.build_id} waits for dataset {self.dataset_id} on {self.branch}"


class Job(models.Model):
    """One transform, or one upload, within a build."""

    id = models.CharField(primary_key=True, max_length=32, default=ids.new_id)
    build = models.ForeignKey(Build, on_delete=models.CASCADE, related_name="jobs")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, default=RUN)
    repository = models.CharField(max_length=100, blank=True)
    spec_branch = models.CharField(max_length=BRANCH_LENGTH, blank=True)
    sha = models.CharField(max_length=40, blank=True)
    function = models.CharField(max_length=400, blank=True)
    file = models.CharField(max_length=1000, blank=True)
    line = models.PositiveIntegerField(default=0)
    profile = models.CharField(max_length=20, default="light")
    size = models.CharField(max_length=20, default="small")
    digest = models.CharField(max_length=128, blank=True)
    is_incremental = models.BooleanField(default=False)
    upload = models.JSONField(null=True)
    """Of an upload: the staged file, its format and mode; of one that a build repeats, the kept `files`."""
    state = StateField(max_length=15, default=JobState.WAITING)
    skipped = models.BooleanField(default=False)
    why = models.CharField(max_length=500, blank=True)
    """Why it runs, or why it is fresh, as the plan said."""
    reason = models.TextField(blank=True)
    """How it ended, or what it waits for."""
    attempt = models.PositiveIntegerField(default=0)
    """Fences: what an earlier attempt still does has no effect."""
    lost = models.PositiveIntegerField(default=0)
    """How often the worker or the job runner died under it."""
    lease_until = models.DateTimeField(null=True)
    worker = models.CharField(max_length=200, blank=True)
    spark_session = models.CharField(max_length=36, blank=True)
    progress = models.JSONField(default=dict)
    error = models.JSONField(null=True)
    turn = models.PositiveBigIntegerField(default=0)
    """Its build's: workers take the job whose turn it is, not the one that a message names."""
    due_at = models.DateTimeField(null=True)
    """Not taken before: what it needs was not there when it was put back."""
    created_at = models.DateTimeField(default=clock.now)
    rung_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True, db_index=True)
    finished_at = models.DateTimeField(null=True)

    objects = JobRows.as_manager()

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["build", "number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["build", "number"], name="job_number"),
            # A running job without a lease would never be missed.
            models.CheckConstraint(
                condition=~models.Q(state__in=["RUNNING", "ABORT_PENDING"]) | models.Q(lease_until__isnull=False),
                name="job_running_has_lease",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "turn", "build", "number"], name="job_by_turn"),
        ]

    def __str__(self) -> str:
        return f"job {self.number} of build {self.build_id}"

    @property
    def is_over(self) -> bool:
        """Whether it reached its end."""
        return self.state in JOB_ENDS

    @property
    def staging_branch(self) -> str:
        """The table branch that it writes and nobody reads."""
        return f"_job/{self.pk}"

    @property
    def is_into_open_transaction(self) -> bool:
        """Whether it is an upload into a transaction that a user opened, in which the user and others stage too."""
        return (self.upload or {}).get("transaction") is not None

    @property
    def is_load(self) -> bool:
        """Whether it repeats earlier uploads, which is known by the files that were kept of them."""
        return "files" in (self.upload or {})


class KeptUpload(models.Model):
    """The file of an upload on a branch, kept in the home while a merge may repeat it."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="kept", db_constraint=False)
    """The upload's; the file has its name."""
    sha256 = models.CharField(max_length=64)
    bytes = models.BigIntegerField()

    def __str__(self) -> str:
        return f"file of job {self.job_id}"


class JobInput(models.Model):
    """Where a job reads one input: the branch, and the exact transaction once it is known."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="inputs")
    name = models.CharField(max_length=200)
    path = models.CharField(max_length=500, db_index=True)
    branch = models.CharField(max_length=BRANCH_LENGTH)
    transaction = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+")
    from_job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="readers")
    fallback = models.BooleanField(default=False)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.path} on {self.branch}"


class JobOutput(models.Model):
    """One dataset that a job writes and the transaction opened for it; none for a fresh job."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="outputs")
    name = models.CharField(max_length=200)
    path = models.CharField(max_length=500)
    dataset = models.ForeignKey("datasets.Dataset", null=True, on_delete=models.SET_NULL, related_name="+")
    transaction = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+")
    summary = models.JSONField(default=dict)
    """A `protocol.OutputResult` without its origins; empty before the job has completed."""

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["path", "-id"], name="output_newest")]
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return self.path

    @property
    def loaded_columns(self) -> list[dict[str, Any]]:
        """The columns of the file that was loaded; earlier releases kept none."""
        columns: list[dict[str, Any]] = self.summary.get("columns") or []
        return columns

    @property
    def warnings(self) -> list[str]:
        """What could not be kept of that file, each with its column."""
        return [f"Column {column['name']}: {text}." for column in self.loaded_columns for text in column["warnings"]]


class OutputColumns(models.Model):
    """What the columns of an output are made of, as the plan told that wrote it; none where that is not known."""

    output = models.OneToOneField(
        JobOutput, on_delete=models.CASCADE, primary_key=True, related_name="made_columns", db_constraint=False
    )
    """A release that does not know of this table may remove it."""
    columns = models.JSONField(default=list)
    """As `webapp.builds.rules.sources` keeps them, in their order; a column that is not known is left out."""

    def __str__(self) -> str:
        return f"of {self.output_id}"
