"""Pull requests, their datasets, reviews and comments, and their merge."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

from django.conf import settings
from django.db import models
from django.db.models import Case, When

from webapp.comparisons.models import Comparison
from webapp.comparisons.rules.states import NOT_COMPARED
from webapp.core import clock
from webapp.core.moves import Moves, StateField
from webapp.dispatch.leases import Leases
from webapp.pulls.rules import states
from webapp.pulls.rules.labels import MOST_NAME, PLAIN, TONE_CHOICES
from webapp.pulls.rules.queue import queue_branch
from webapp.pulls.rules.states import QUEUE_GOES_ON, MergeState, PullState, QueueState
from webapp.repositories.models import commit_key

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta

    from webapp.repositories.models import Repository
else:
    TypedModelMeta = object


class PullRows(Moves["PullRequest"]):
    """Pull requests."""


class PullRequest(models.Model):
    """A proposal to merge one branch of a repository into another, and to rebuild what it changes."""

    repository = models.ForeignKey("repositories.Repository", on_delete=models.CASCADE, related_name="pulls")
    number = models.PositiveIntegerField()
    """Counted per repository from 1."""
    title = models.CharField(max_length=250)
    body = models.TextField(blank=True)
    source = models.CharField(max_length=200)
    target = models.CharField(max_length=200)
    state = StateField(max_length=10, default=PullState.OPEN)
    draft = models.BooleanField(default=False)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    head_sha = models.CharField(max_length=40)
    """The source's head as last seen; kept when the branch is deleted."""
    head = commit_key("head_sha", related_name="pulls")
    followed_sha = models.CharField(max_length=40, null=True)  # noqa: DJ001 NULL is what the release before writes
    """The head whose published JobSpecs named its datasets; empty before that, NULL where nobody noted it."""
    base_sha = models.CharField(max_length=40)
    """The target's head as last seen."""
    base = commit_key("base_sha")
    reverts = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="reverted_by", db_constraint=False
    )
    """The merged pull request that it takes back."""
    created_at = models.DateTimeField(default=clock.now)
    updated_at = models.DateTimeField(default=clock.now)
    closed_at = models.DateTimeField(null=True)

    objects = PullRows.as_manager()

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "number"], name="pull_number"),
            models.UniqueConstraint(
                fields=["repository", "source", "target"],
                condition=models.Q(state=PullState.OPEN),
                name="pull_one_open_per_branches",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state", "-updated_at", "-id"], name="pull_by_state"),
            models.Index(fields=["repository", "state", "-updated_at", "-id"], name="pull_of_repository"),
            models.Index(fields=["author", "state", "-updated_at"], name="pull_of_author"),
        ]
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.repository_id}#{self.number}"


class ChangedDatasets(models.QuerySet["PullDataset"]):
    """Datasets of pull requests."""

    def loading(self) -> Self:
        """Return those whose files merging loads on the target."""
        return self.filter(loads_onto__isnull=False)


class PullDataset(models.Model):
    """One dataset that a pull request changes or affects, with the two transactions compared."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="datasets")
    path = models.CharField(max_length=400)
    dataset = models.ForeignKey("datasets.Dataset", null=True, on_delete=models.CASCADE, related_name="+")
    """None until the first build makes the dataset."""
    change = models.CharField(max_length=10, choices=states.CHANGE_CHOICES)
    compared = models.CharField(
        max_length=10, choices=states.COMPARED_CHOICES, default=states.THIS_BRANCH, db_default=states.TARGET_NOW
    )
    """Which of its named comparisons is the one that every page shows unless another is asked for."""
    before = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+")
    after = models.ForeignKey("datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+")
    comparison = models.ForeignKey(Comparison, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.CharField(max_length=400, blank=True)
    """Why it is not compared, where it is not."""
    base_note = models.TextField(blank=True, db_default="")
    """What else than the branch's own work *this branch* shows, and why; empty where it shows nothing else."""
    lands_reason = models.TextField(blank=True, db_default="")
    """Why merging does not bring its rows to the target; empty where it does, by rebuilding them."""
    rule_changes = models.JSONField(default=list, db_default=[])
    """How the branch changes the dataset's review rules, in words."""
    changed_files = models.JSONField(default=list, db_default=[])
    """Files that differ and that its jobs use while they run, if its JobSpec itself is unchanged."""
    schema_status = models.CharField(max_length=12, default=NOT_COMPARED)
    is_rebuilt = models.BooleanField(default=True, db_default=True, db_column="has_jobspec")
    """Whether there is something to build where it is modified or new: not what was loaded over unchanged code."""
    current = models.BooleanField(default=False)
    """Whether the branch's data was made by the branch's published code."""
    loads_onto = models.CharField(max_length=50, null=True)  # noqa: DJ001 NULL leaves on the source what was loaded there
    """The target's transaction on which merging loads the files of the source again; empty where it had none."""
    loads_rows = models.CharField(max_length=50, blank=True, default="", db_default="")
    """The source's transaction when that was chosen: with other rows it is chosen again."""

    objects = ChangedDatasets.as_manager()

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["pull", "path"], name="pull_dataset_once")]
        ordering: ClassVar = ["path"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.path}"

    @cached_property
    def named(self) -> list[NamedComparison]:
        """Its named comparisons; whoever loads many datasets loads those of all of them, and sets them here."""
        return list(self.comparisons.all())

    @property
    def lands(self) -> bool:
        """Whether merging brings what it shows to the target."""
        return not self.lands_reason


class PullCheck(models.Model):
    """A query that the head of a pull request keeps as a check, with its newest run on both branches."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="query_checks", db_constraint=False)
    name = models.CharField(max_length=250)
    head_sha = models.CharField(max_length=40)
    """The head whose file it is."""
    expects = models.CharField(max_length=40, blank=True)
    """As `webapp.sql.rules.checks` reads it; empty where the file does not say."""
    sql = models.TextField()
    names = models.JSONField(null=True)
    """The tables that it names; None before somebody has looked."""
    error = models.TextField(blank=True)
    """Why it cannot be run; empty where it can."""
    is_final = models.BooleanField(default=False)
    """Whether only another text mends the error; any other may be gone once data or rights have moved."""
    standing = models.CharField(max_length=10, choices=states.STANDING_CHOICES)
    """Of its file beside the target's."""
    query = models.ForeignKey("sql.Query", null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False)
    """Its newest run; None where it is to be run, or cannot be."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["pull", "name"], name="pull_check_once")]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.name}"


class NamedComparison(models.Model):
    """One of the comparisons of a dataset of a pull request; each answers another question."""

    row = models.ForeignKey(PullDataset, on_delete=models.CASCADE, related_name="comparisons", db_constraint=False)
    name = models.CharField(max_length=10, choices=states.NAMED_CHOICES)
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    """Since whose last review; None for all names that say the same to everybody."""
    before = models.ForeignKey(
        "datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    after = models.ForeignKey(
        "datasets.Transaction", null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    comparison = models.ForeignKey(
        Comparison, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["row", "name"], condition=models.Q(reviewer=None), name="comparison_named_once"
            ),
            models.UniqueConstraint(fields=["row", "reviewer"], name="comparison_of_reviewer_once"),
        ]

    def __str__(self) -> str:
        return f"{self.row_id}: {self.name}"


def _own_repository() -> models.ForeignKey[Repository | None, Repository | None]:
    """Return the key to the repository of the row's pull request, beside it because keys to commits need one.

    A process of the release before writes none: such a row leads to no commit.
    """
    return models.ForeignKey(
        "repositories.Repository", null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )


class Review(models.Model):
    """A verdict, bound to exactly what its author saw."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="reviews")
    repository = _own_repository()
    head_sha = models.CharField(max_length=40, blank=True, db_default="")
    """Of the commit that was seen, as `seen` says."""
    head = commit_key("head_sha")
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=10, choices=states.VERDICT_CHOICES)
    body = models.TextField(blank=True)
    seen = models.JSONField(default=dict)
    """Source head, target, rules digest and the branch-side transaction of each modified dataset."""
    voided_at = models.DateTimeField(null=True)
    void_reason = models.CharField(max_length=400, blank=True)
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.verdict} by {self.reviewer_id}"


class DatasetVerdict(models.Model):
    """What a reviewer says of one dataset, bound to the rows of the source that they saw."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="verdicts", db_constraint=False)
    reviewer = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    path = models.CharField(max_length=400)
    verdict = models.CharField(max_length=10, choices=states.DATASET_VERDICT_CHOICES)
    reason = models.TextField(blank=True)
    """Why it is rejected."""
    transaction = models.CharField(max_length=50)
    """Of the source, that was seen; where the dataset has another one, the verdict is void."""
    given_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pull", "reviewer", "path"], name="dataset_verdict_once")
        ]
        ordering: ClassVar = ["given_at", "id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.path} {self.verdict} by {self.reviewer_id}"


class Label(models.Model):
    """A word of a repository by which its pull requests are sorted."""

    repository = models.ForeignKey(
        "repositories.Repository", on_delete=models.CASCADE, related_name="labels", db_constraint=False
    )
    name = models.CharField(max_length=MOST_NAME)
    tone = models.CharField(max_length=10, choices=TONE_CHOICES)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["repository", "name"], name="label_once")]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def pill(self) -> str:
        """The kind of pill that shows it."""
        return "" if self.tone == PLAIN else self.tone


class PullLabel(models.Model):
    """A pull request has a label."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="labels", db_constraint=False)
    label = models.ForeignKey(Label, on_delete=models.CASCADE, related_name="pulls", db_constraint=False)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["pull", "label"], name="labelled_once")]
        ordering: ClassVar = ["label__name"]

    def __str__(self) -> str:
        return f"{self.pull_id}: label {self.label_id}"


class Assignee(models.Model):
    """Somebody sees to a pull request."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="assignees", db_constraint=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["pull", "user"], name="assigned_once")]
        ordering: ClassVar = ["user__username"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.user_id} sees to it"


class ReviewRequest(models.Model):
    """A person or a group is asked for a review. Whether they gave it is what their reviews since then say."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="requests", db_constraint=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    group = models.ForeignKey("auth.Group", null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    asked_at = models.DateTimeField(default=clock.now)
    """When last: a review before that is no answer."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["pull", "user"], name="review_of_user_asked_once"),
            models.UniqueConstraint(fields=["pull", "group"], name="review_of_group_asked_once"),
            models.CheckConstraint(
                condition=models.Q(user=None, group__isnull=False) | models.Q(user__isnull=False, group=None),
                name="review_asked_of_one",
            ),
        ]
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: review asked of {self.user_id or self.group_id}"


class Comment(models.Model):
    """A remark on the pull request, or on a line of code or a cell of data; or a reply to one, in its thread."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="comments")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    body = models.TextField()
    anchor = models.JSONField(null=True)
    """{path, line, side} or {dataset, key, column}; None for the whole pull request, and of a reply."""
    quoted = models.TextField(blank=True)
    """What stood there when it was written; where something else stands now, it is outdated. Of a row, the transaction."""
    picture = models.JSONField(null=True)
    """Of a row, what it looked like when it was written (`comparisons.diffs.pictures`), and by which comparison: where it
    still does, another transaction makes the remark no older."""
    seen = models.JSONField(null=True)
    """Of lines of code, {commit, path}: the commit that showed them, and the path of the file there. None for anything
    else, and for comments of earlier releases."""
    thread = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="replies", db_constraint=False)
    """The remark that this one replies to, which begins the thread; None where it begins one."""
    review = models.ForeignKey(
        Review, null=True, on_delete=models.SET_NULL, related_name="comments", db_constraint=False
    )
    """With which it was submitted; None of one that did not wait for a review."""
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=clock.now)
    edited_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)
    """When its text was taken away, and that of its earlier versions; that there was one stays."""
    deleted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["-created_at"], name="comment_newest")]
        ordering: ClassVar = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: comment {self.pk}"


class CommentVersion(models.Model):
    """What a comment said before its author changed it."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="versions", db_constraint=False)
    body = models.TextField()
    written_at = models.DateTimeField()

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"comment {self.comment_id} until it was changed"


class PendingComment(models.Model):
    """A comment of a review that its author has not submitted yet.

    It has a table of its own: whatever reads comments, of this release or of the one before, cannot show it to anybody.
    All that somebody has of a pull request are their one pending review of it.
    """

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="pending", db_constraint=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    body = models.TextField()
    anchor = models.JSONField(null=True)
    """As of a comment."""
    quoted = models.TextField(blank=True)
    """What stood there when it was written."""
    picture = models.JSONField(null=True)
    """As of a comment."""
    seen = models.JSONField(null=True)
    """As of a comment."""
    thread = models.ForeignKey(Comment, null=True, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    """The comment that begins the thread which it replies to; None where it begins one."""
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["pull", "author"], name="pending_of_author")]
        ordering: ClassVar = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: pending comment {self.pk}"


class Viewed(models.Model):
    """A reader has looked at a file or a dataset of a pull request, as it was then."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="viewed")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    place = models.CharField(max_length=400)
    """Path of the file, or of the dataset, which begins with a slash."""
    content = models.CharField(max_length=100)
    """What was there to see; the mark is void where that is something else now."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["pull", "user", "place"], name="viewed_once")]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.place} by {self.user_id}"


class TimelineEvent(models.Model):
    """What happened to a pull request, in order. Comments and reviews have their own rows."""

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=20, choices=states.EVENT_CHOICES)
    actor = models.CharField(max_length=150, blank=True)
    data = models.JSONField(default=dict)
    at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["-at"], name="event_newest")]
        ordering: ClassVar = ["at", "id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.kind}"


class MergeRows(Moves["Merge"]):
    """Merges."""


class Merge(models.Model):
    """One merge as an operation that survives a crash: prepared, landed in Git, then rebuilding master.

    What waits to be merged is a `QueuedMerge`; this is its landing.

    The merge commit is made before any ref moves and its hash is kept here, so that after a crash the sweeper can tell
    from Git alone whether the merge landed.
    """

    pull = models.OneToOneField(PullRequest, on_delete=models.CASCADE, related_name="merge")
    repository = _own_repository()
    method = models.CharField(max_length=10, choices=states.METHOD_CHOICES)
    rebuild = models.CharField(max_length=10, choices=states.REBUILD_CHOICES)
    bypass = models.BooleanField(default=False)
    bypassed = models.JSONField(default=list)
    """The blocking reasons that were passed over."""
    state = StateField(max_length=10, default=MergeState.PREPARED)
    source_sha = models.CharField(max_length=40)
    source_commit = commit_key("source_sha")
    target = models.CharField(max_length=200, db_default="")
    """The branch that it was asked for; the pull request may name another one by the time that it is taken on."""
    target_sha = models.CharField(max_length=40)
    target_commit = commit_key("target_sha")
    merge_commit = models.CharField(max_length=40)
    landed_commit = commit_key("merge_commit")
    targets = models.JSONField(default=list)
    """Dataset paths to rebuild."""
    loads = models.JSONField(default=list, db_default=[])
    """Uploads of the source that the build repeats (`webapp.builds.rules.loads`)."""
    reviewed = models.JSONField(default=dict)
    """Dataset path → branch-side transaction that was reviewed."""
    build = models.ForeignKey("builds.Build", null=True, on_delete=models.SET_NULL, related_name="+")
    outcome = models.JSONField(default=dict)
    """Dataset path → {state: equal|different|comparing|not_compared, …} after the rebuild."""
    merged_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=clock.now)
    landed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    objects = MergeRows.as_manager()

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.state}"

    @property
    def landing_branch(self) -> str:
        """The branch that it was asked for; a process of an earlier release wrote none, and meant the pull request's."""
        return self.target or self.pull.target


class QueuedMergeRows(Leases["QueuedMerge"]):
    """Merges that are asked for. One whose code a worker imports is being tested as well."""

    lease = timedelta(seconds=20)
    waits = QueueState.TESTING
    runs = QueueState.TESTING

    def going_on(self) -> Self:
        """Return those that are still asked for, in their order; those that have no place yet come last."""
        unplaced = Case(When(place=0, then=1), default=0)
        return self.filter(state__in=QUEUE_GOES_ON).order_by(unplaced, "place", "pk")


class QueuedMerge(models.Model):
    """A merge that somebody asked for when it is ready: tested on what lands before it, then landed as it was tested.

    What would land is made before any ref moves, and built on a branch that nobody reads. Git and the rows say how far
    it came, so that any worker carries it on.
    """

    pull = models.ForeignKey(PullRequest, on_delete=models.CASCADE, related_name="queued", db_constraint=False)
    repository = models.ForeignKey(
        "repositories.Repository", on_delete=models.CASCADE, related_name="+", db_constraint=False
    )
    target = models.CharField(max_length=200)
    method = models.CharField(max_length=10, choices=states.METHOD_CHOICES)
    rebuild = models.CharField(max_length=10, choices=states.REBUILD_CHOICES)
    enqueued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_constraint=False
    )
    """Whose rights count, also when it lands."""
    source_sha = models.CharField(max_length=40)
    """The head that is to be merged: with another one it leaves."""
    source_commit = commit_key("source_sha")
    state = StateField(max_length=10, default=QueueState.QUEUED)
    place = models.PositiveBigIntegerField(default=0)
    """Its place in the order, which it keeps; 0 until it joins the queue."""
    base_sha = models.CharField(max_length=40, blank=True)
    """What it was tested on: the target's head, or what the one before it would land as."""
    base_commit = commit_key("base_sha")
    tested_sha = models.CharField(max_length=40, blank=True)
    """What would land; empty where it conflicts with what it was to be tested on."""
    tested_commit = commit_key("tested_sha")
    targets = models.JSONField(default=list)
    """Dataset paths that its test builds."""
    loads = models.JSONField(default=list, db_default=[])
    """Uploads of the source that its test repeats."""
    build = models.ForeignKey(
        "builds.Build", null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    reason = models.TextField(blank=True)
    """Why its test failed, or why it left."""
    attempt = models.PositiveIntegerField(default=0)
    """Fences the workers that import its code: what an earlier one still does has no effect."""
    lease_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)
    finished_at = models.DateTimeField(null=True)

    objects = QueuedMergeRows.as_manager()

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["pull"],
                condition=models.Q(state__in=sorted(state.value for state in QUEUE_GOES_ON)),
                name="queued_merge_once",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["repository", "target", "state"], name="queued_merge_of_branch")]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.pull_id}: {self.state}"

    @property
    def test_branch(self) -> str:
        """The branch on which its test builds; empty before there is one."""
        return queue_branch(self.repository.name, self.pk, self.tested_sha) if self.tested_sha else ""


class SpecRecord(models.Model):
    """The JobSpecs of one commit, kept when its branch moves on: what a pull request compares its head with."""

    repository = models.ForeignKey("repositories.Repository", on_delete=models.CASCADE, related_name="+")
    sha = models.CharField(max_length=40)
    commit = commit_key("sha")
    specs = models.JSONField()
    """Output path → {digest, inputs}."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["repository", "sha"], name="spec_record_once")]

    def __str__(self) -> str:
        return f"{self.repository_id}@{self.sha[:7]}"
