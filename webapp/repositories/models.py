"""Repositories and what the database adds to Git: ancestry of branches, publications and protections."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F, OuterRef, Subquery
from django.db.models.functions import Coalesce, Lower, Now

from webapp.core import clock
from webapp.core.keys import NaturalKey
from webapp.core.moves import StateField
from webapp.core.names import MASTER
from webapp.core.words import counted
from webapp.dispatch.leases import Leases
from webapp.git.errors import ForeignCopy
from webapp.git.repository import GitRepository
from webapp.git.values import CommitInfo, Person
from webapp.repositories.rules.checks import COLOURS, RESULT_CHOICES, TONES
from webapp.repositories.rules.states import MOST_ERRORS, PublicationState
from webapp.repositories.rules.webhooks import SHAPE_CHOICES, TRIBUTARY

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class Repository(models.Model):
    """A Git repository with a pipeline in it."""

    name = models.CharField(max_length=100, unique=True)
    description = models.CharField(max_length=500, blank=True)
    default_branch = models.CharField(max_length=200, default=MASTER)
    created_at = models.DateTimeField(default=clock.now)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    uid = models.UUIDField(default=uuid4, editable=False)
    """In the bare repository too: a copy that names another one is of another repository or installation."""
    generation = models.PositiveBigIntegerField(default=0)
    """Counts announced moves, in the bare repository first: a copy that counts less is an older one. 0: never said."""

    class Meta(TypedModelMeta):
        verbose_name_plural = "repositories"
        constraints: ClassVar = [models.UniqueConstraint(Lower("name"), name="repository_name_without_case")]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        """Return the folder of the bare repository."""
        return Path(settings.TRIBUTARY_HOME) / "repositories" / f"{self.name}.git"

    @property
    def copy(self) -> GitRepository:
        """Open what lies in its place, whosever it is: to be looked at, not shown."""
        return GitRepository(self.path)

    @property
    def git(self) -> GitRepository:
        """Open the bare repository.

        Raises:
            ForeignCopy: another one lies in its place, which other people may read.

        """
        git = self.copy
        identity = git.read_identity()
        if identity is not None and identity.uid != self.uid.hex:
            message = f"{git.path} is a copy of another repository, or of another installation's."
            raise ForeignCopy(message)
        return git


def commit_key(column: str, *, related_name: str = "+") -> NaturalKey[Commit]:
    """Return the foreign key of a model with a repository to the commit that a column of hashes names.

    The commit is None until it has a row, and where its history cannot be read.
    """
    fields = {"from_fields": ["repository", column], "to_fields": ["repository", "sha"]}
    return NaturalKey("repositories.Commit", related_name=related_name, **fields)


class Branch(models.Model):
    """What Git does not know of a branch. Git is the truth of its head; this row says which head was announced."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="branches")
    name = models.CharField(max_length=200)
    name_lower = models.CharField(max_length=200)
    parent = models.CharField(max_length=200, blank=True)
    announced_head = models.CharField(max_length=40, blank=True)
    head = commit_key("announced_head", related_name="branches")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        # As the releases before called it: their processes may run beside this one's.
        db_table = "repositories_branchrecord"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "name_lower"], name="branch_name_without_case"),
        ]
        ordering: ClassVar = ["name_lower"]

    def __str__(self) -> str:
        return f"{self.repository_id}:{self.name}"


class Commit(models.Model):
    """A commit as a row, so that histories are read without Git. Git is the source, and a commit never changes.

    A commit has a row only where all that came before it have theirs: who finds the row of a head can read its history.
    """

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="commits", db_constraint=False)
    sha = models.CharField(max_length=40)
    tree = models.CharField(max_length=40)
    parents = models.JSONField(default=list, blank=True)
    """Their hashes, in Git's order."""
    level = models.PositiveBigIntegerField()
    """One more than the highest level of its parents: from above, every commit comes before those that it follows."""
    message = models.TextField(blank=True)
    author_name = models.TextField(blank=True)
    author_email = models.TextField(blank=True)
    authored_at = models.DateTimeField()
    authored_zone = models.SmallIntegerField()
    """Minutes by which the author's clock is ahead of UTC."""
    committer_name = models.TextField(blank=True)
    committer_email = models.TextField(blank=True)
    committed_at = models.DateTimeField()
    committed_zone = models.SmallIntegerField()
    brought_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    """Whose move of a branch first brought it here, at its head or below; null where nobody is known to have."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["repository", "sha"], name="commit_once")]
        indexes: ClassVar = [models.Index(fields=["repository", "level", "sha"])]

    def __str__(self) -> str:
        return f"{self.repository_id}:{self.sha[:7]}"

    @property
    def info(self) -> CommitInfo:
        """Return the commit as Git itself tells it."""
        return CommitInfo(
            sha=self.sha,
            tree=self.tree,
            parents=tuple(self.parents),
            message=self.message,
            author=Person(name=self.author_name, email=self.author_email),
            authored_at=_put_into_zone(self.authored_at, self.authored_zone),
            committer=Person(name=self.committer_name, email=self.committer_email),
            committed_at=_put_into_zone(self.committed_at, self.committed_zone),
        )


def _put_into_zone(moment: datetime, minutes: int) -> datetime:
    return moment.astimezone(timezone(timedelta(minutes=minutes)))


class CommitStatus(models.Model):
    """What a program of others says of a commit, or of what it makes of one dataset: the newest of each name."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="statuses", db_constraint=False)
    sha = models.CharField(max_length=40)
    commit = commit_key("sha", related_name="statuses")
    name = models.CharField(max_length=100)
    dataset = models.CharField(max_length=400, blank=True)
    """Path of the dataset that it speaks of; empty where it speaks of the whole commit."""
    result = models.CharField(max_length=10, choices=RESULT_CHOICES)
    description = models.CharField(max_length=400, blank=True)
    url = models.CharField(max_length=1000, blank=True)
    reported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    reported_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "sha", "name", "dataset"], name="status_once")
        ]
        indexes: ClassVar = [models.Index(fields=["repository", "name"], name="status_by_name")]
        ordering: ClassVar = ["name", "dataset"]

    def __str__(self) -> str:
        return f"{self.repository_id}:{self.sha[:7]}: {self.name} {self.result}"

    @property
    def tone(self) -> str:
        """The sign and colour that show it."""
        return TONES[COLOURS[self.result]]


class BranchDeletion(models.Model):
    """Somebody's act of deleting a branch, kept before its ref goes and until all that follows is done.

    A branch that Git lacks is deleted only where this row says so; else the copy is not what it should be.
    """

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="deletions")
    branch = models.CharField(max_length=200)
    head = models.CharField(max_length=40)
    data = models.CharField(max_length=10, default="delete", choices=[("delete", "goes too"), ("keep", "stays")])
    is_push = models.BooleanField(default=False)
    """Git itself removes the ref then, or does not; nobody does it for the pusher."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "branch"], name="branch_deletion_once"),
        ]

    def __str__(self) -> str:
        return f"{self.repository_id}: delete {self.branch}"


class PendingMove(models.Model):
    """Somebody's move of a branch or tag, kept before Git acts and until the audit log has it.

    A process that dies in between leaves the row, which tells the sweep whose move it finds.
    """

    repository = models.ForeignKey(
        Repository, on_delete=models.CASCADE, related_name="pending_moves", db_constraint=False
    )
    ref = models.CharField(max_length=400)
    before = models.CharField(max_length=40, blank=True)
    after = models.CharField(max_length=40, blank=True)
    """Empty where a tag goes; a branch that goes has a `BranchDeletion`."""
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_constraint=False)
    entry = models.JSONField(default=dict)
    """verb, object, branch and detail of the audit log's entry; empty where the act that this is a step of has its own."""
    at = models.DateTimeField(default=clock.now)
    request = models.BigIntegerField(null=True)
    """The record of the Idempotency-Key of the request; whoever finds the move notes there that it was done."""

    class Meta(TypedModelMeta):
        indexes: ClassVar = [models.Index(fields=["repository", "ref"])]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.repository_id}:{self.ref} to {self.after[:7] or 'nothing'}"


class CopyDamage(models.Model):
    """A copy of a repository on some machine that is not what the database knows: nothing writes it, nothing follows it."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="damages")
    place = models.CharField(max_length=500)
    """The machine and the folder."""
    problem = models.TextField()
    seen_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["repository", "place"], name="copy_damage_once")]

    def __str__(self) -> str:
        return f"{self.repository_id} at {self.place}"


class HeadMove(models.Model):
    """Who moved a branch to a commit: what Git's own author and committer, whom a pusher writes, do not prove."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="moves")
    branch = models.CharField(max_length=200)
    before = models.CharField(max_length=40, blank=True)
    """Empty for a new branch."""
    after = models.CharField(max_length=40)
    commit = commit_key("after")
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "branch", "before", "after", "by"], name="head_move_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["repository", "after"])]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.branch} to {self.after[:7]} by {self.by_id}"


class PublicationRows(Leases["Publication"]):
    """Publications. One that is being worked on is pending as well."""

    column = "status"
    lease = timedelta(seconds=20)
    waits = PublicationState.PENDING
    runs = PublicationState.PENDING

    def running(self) -> Self:
        """Return those that a worker has now."""
        return self.waiting().filter(lease_until__gt=clock.statement_now())

    def with_pusher(self) -> Self:
        """Add the id of the user who moved the branch to the commit as `pusher`, or that of the repository's maker."""
        moves = HeadMove.objects.filter(
            repository=OuterRef("repository"), branch=OuterRef("branch"), after=OuterRef("sha")
        )
        return self.annotate(
            pusher=Coalesce(
                Subquery(moves.values("by")[:1]), F("repository__created_by"), output_field=models.BigIntegerField()
            )
        )

    def pushed_by(self, user: int | OuterRef | None) -> Self:
        """Return those that a user pushed; call it after `with_pusher`."""
        return self.filter(models.Q(("pusher", user)))


class Publication(models.Model):
    """The outcome of one commit on one branch: what its modules declare, or why they cannot be imported."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="publications")
    branch = models.CharField(max_length=200)
    sha = models.CharField(max_length=40)
    commit = commit_key("sha", related_name="publications")
    status = StateField(max_length=10, default=PublicationState.PENDING)
    jobspecs = models.PositiveIntegerField(default=0)
    errors = models.JSONField(default=list, blank=True)
    """[{file, line, message}]."""
    created_at = models.DateTimeField(default=clock.now)
    rung_at = models.DateTimeField(default=clock.now, db_default=Now())
    """When it was asked for, or the sweep last rang for it."""
    attempt = models.PositiveIntegerField(default=0, db_default=0)
    """Fences: what an earlier attempt still does has no effect."""
    lost = models.PositiveIntegerField(default=0, db_default=0)
    """How often the job runner died under it since it was last asked for."""
    lease_until = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    pusher: int | None
    """Id of the user who pushed the commit; only on rows of `PublicationRows.with_pusher`."""

    objects = PublicationRows.as_manager()

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "branch", "sha"], name="publication_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["repository", "sha"]), models.Index(fields=["status"])]
        ordering: ClassVar = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.branch}@{self.sha[:7]}: {self.status}"

    @property
    def summary(self) -> str:
        """Return the outcome in words."""
        if self.status == PublicationState.PENDING:
            return "publishing"
        return (
            counted(len(self.errors), "error", most=MOST_ERRORS)
            if self.status == PublicationState.FAILED
            else counted(self.jobspecs, "JobSpec")
        )


class Protection(models.Model):
    """What it takes to move a branch."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="protections")
    branch = models.CharField(max_length=200)
    approvals = models.PositiveSmallIntegerField(default=1)
    groups = models.ManyToManyField(Group, related_name="+", blank=True)
    """Somebody of each of these groups must approve."""
    paths = models.JSONField(default=list, blank=True)
    """[{pattern, group, approvals}]: who must approve a change of matching files or datasets."""
    checks = models.JSONField(default=list, blank=True)
    """Names of the checks that must be green."""
    resolved_threads = models.BooleanField(default=False, db_default=False)
    """Every thread on a line of code or on data must be resolved."""
    owners = models.BooleanField(default=False, db_default=False)
    """Somebody of those whom `[owners]` of pipeline.toml names must approve a change of theirs."""
    allow_bypass = models.BooleanField(default=True)
    """Maintainers may commit directly and merge past a requirement."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["repository", "branch"], name="protection_once"),
        ]
        ordering: ClassVar = ["branch"]

    def __str__(self) -> str:
        return f"{self.repository_id}:{self.branch}"


class Webhook(models.Model):
    """An address that receives a repository's events."""

    repository = models.ForeignKey(Repository, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=500)
    events = models.JSONField(default=list)
    shape = models.CharField(max_length=10, choices=SHAPE_CHOICES, default=TRIBUTARY, db_default=TRIBUTARY)
    """What its deliveries look like. They are kept as facts, and shaped when they are sent."""
    secret = models.CharField(max_length=1200, blank=True)
    """Sealed under the installation's secret key, and not hashed, because every delivery is signed with it; never shown."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.repository_id}: {self.url}"


class DeliveryRows(Leases["Delivery"]):
    """Deliveries. They have no states: one waits as long as it has a time, and a try that is not over puts that off."""

    lease = timedelta(seconds=60)
    until = "due_at"
    fence = "tries"

    def waiting(self) -> Self:
        """Return those that are tried again."""
        return self.exclude(due_at=None)

    claimed = waiting

    def forgotten(self) -> Self:
        """Return those that are due: the sweep alone rings for what is tried again."""
        return self.free()

    def note_rung(self) -> None:
        """Leave them as they are: they are due until somebody tries them."""

    def _begin(self, values: dict[str, Any]) -> int:
        return self.update(**values)


class Delivery(models.Model):
    """One event for one webhook."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    uid = models.CharField(max_length=36, unique=True)
    event = models.CharField(max_length=20)
    body = models.TextField()
    tries = models.PositiveSmallIntegerField(default=0)
    due_at = models.DateTimeField(null=True, default=clock.now)
    """When it is tried next; None once it was taken or given up."""
    status = models.PositiveSmallIntegerField(null=True)
    """Of the last answer; 0 without one."""
    reason = models.CharField(max_length=300, blank=True)
    sent_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=clock.now)

    objects = DeliveryRows.as_manager()

    class Meta(TypedModelMeta):
        verbose_name_plural = "deliveries"
        indexes: ClassVar = [models.Index(fields=["due_at"])]
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id}"
