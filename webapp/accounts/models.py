"""Users, their tokens and roles, and the audit log."""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower

from webapp.accounts.rules.agents import describe_agent
from webapp.accounts.rules.audit import ALLOWED, mac_of_gap
from webapp.accounts.rules.roles import ROLE_CHOICES
from webapp.accounts.rules.themes import COLOR_MODES, DARK_THEMES, LIGHT_THEMES
from webapp.core import clock

if TYPE_CHECKING:
    from django_stubs_ext.db.models import TypedModelMeta
else:
    TypedModelMeta = object


class User(AbstractUser):
    """A person who signs in, and how pages look for them. Admins are superusers."""

    color_mode = models.CharField(max_length=10, choices=COLOR_MODES, default="auto")
    light_theme = models.CharField(max_length=30, choices=LIGHT_THEMES, default="light")
    dark_theme = models.CharField(max_length=30, choices=DARK_THEMES, default="dark")
    hotkeys = models.BooleanField(default=True)
    """Single-key shortcuts; people who speak to their computer turn them off."""
    session_generation = models.PositiveIntegerField(default=0)
    """Counts up where all sessions of the user end, though the password stays."""

    def _get_session_auth_hash(self, secret: str | None = None) -> str:
        """Bind sessions to the generation as well as to the password."""
        of_password: str = super()._get_session_auth_hash(secret=secret)  # type: ignore[misc]
        return f"{of_password}:{self.session_generation}" if self.session_generation else of_password


class Token(models.Model):
    """A secret for programs, stored as its digest. A job's token is bound to that job."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    """SHA-256 of the secret: random secrets need no slow hash, and look-up is by index."""
    scopes = models.JSONField(default=list)
    job_scope = models.JSONField(null=True)
    job_id = models.CharField(max_length=40, blank=True, db_index=True)
    created_at = models.DateTimeField(default=clock.now)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} of {self.user_id}"


class ProviderIdentity(models.Model):
    """Who somebody is at a sign-in provider: its issuer with the subject that it calls them by, never an address alone."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_identity", db_constraint=False
    )
    issuer = models.CharField(max_length=400)
    subject = models.CharField(max_length=255)
    email = models.EmailField(blank=True)
    """As the provider verified it when they signed in last."""
    is_admin = models.BooleanField(default=False)
    """Whether it is the provider that makes the user an admin, and may take that back."""
    linked_at = models.DateTimeField(default=clock.now)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class ProvidedMembership(models.Model):
    """That it is the provider by which a user is in a group. Memberships without one were made by hand, and stay."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provided_memberships", db_constraint=False
    )
    group = models.ForeignKey("auth.Group", on_delete=models.CASCADE, related_name="+", db_constraint=False)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "group"], name="provided_once")]

    def __str__(self) -> str:
        return f"{self.user_id} in {self.group_id}"


class ProvidedGroup(models.Model):
    """A group that the provider's group of the same name counts as: made for it, or linked to it by an administrator."""

    group = models.OneToOneField("auth.Group", on_delete=models.CASCADE, related_name="provided", db_constraint=False)

    def __str__(self) -> str:
        return str(self.group_id)


class UserSession(models.Model):
    """A session that somebody began by signing in: on what, from where. Django's row with its key says whether it lasts."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sessions", db_constraint=False
    )
    session_key = models.CharField(max_length=40, unique=True)
    address = models.CharField(max_length=64)
    agent = models.CharField(max_length=400)
    """What the browser calls itself."""
    began_at = models.DateTimeField(default=clock.now)
    seen_at = models.DateTimeField(default=clock.now)
    """Its last request, to the minute."""

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["-seen_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.device} of {self.user_id}"

    @property
    def device(self) -> str:
        """Browser and system in words."""
        return describe_agent(self.agent)


class RepositoryRole(models.Model):
    """What a user may do in a repository and on the datasets of its folders."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="roles")
    repository = models.CharField(max_length=100)
    """Its name: accounts lie below repositories and know them by name only."""
    role = models.CharField(max_length=20, choices=ROLE_CHOICES)

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "repository"], name="role_once")]
        ordering: ClassVar = ["user__username"]

    def __str__(self) -> str:
        return f"{self.user_id} is {self.role} of {self.repository}"


class Folder(models.Model):
    """A top folder of datasets and the repository whose rights hold in it; without one, its creator's."""

    name = models.CharField(max_length=200, unique=True)
    repository = models.CharField(max_length=100, blank=True)
    creator = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta(TypedModelMeta):
        constraints: ClassVar = [models.UniqueConstraint(Lower("name"), name="folder_name_without_case")]

    def __str__(self) -> str:
        return f"/{self.name}"


class SensitiveColumns(models.Model):
    """What a branch of a repository calls sensitive in a dataset, in its pipeline.toml. A push of the branch writes it anew."""

    repository = models.CharField(max_length=100)
    branch = models.CharField(max_length=200)
    is_default = models.BooleanField()
    """Whether the branch is the repository's default one, whose word holds for all data."""
    path = models.CharField(max_length=400)
    """Of the dataset, in lower case."""
    columns = models.JSONField(default=list)
    groups = models.JSONField(default=list)
    """Whose people see the columns, beside the repository's maintainers."""
    repositories = models.JSONField(default=list, db_default=[])
    """Other repositories whose code may read the columns."""
    past = models.JSONField(default=list, db_default=[])
    """Columns that were sensitive before: if master has dropped them, they stay hidden in old transactions."""

    class Meta(TypedModelMeta):
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["path", "repository", "branch"], name="sensitive_once_on_a_branch"),
        ]
        indexes: ClassVar = [models.Index(fields=["repository", "branch"], name="sensitive_of_branch")]

    def __str__(self) -> str:
        return f"{self.path} on {self.branch} of {self.repository}"


class LoginFailure(models.Model):
    """A failed sign-in, or one that is being looked at, counted to slow down guessing."""

    kind = models.CharField(max_length=10, default="password")
    """password, token or provider."""
    username = models.CharField(max_length=150)
    """As it was given, in lower case."""
    address = models.CharField(max_length=64)
    """The address, or the network of one in IPv6."""
    device = models.CharField(max_length=40, blank=True)
    """The device's id, where the user has signed in on it before."""
    at = models.DateTimeField(default=clock.now, db_index=True)

    def __str__(self) -> str:
        return f"{self.username} from {self.address}"


class AuditEntry(models.Model):
    """Who did or tried what. Rows are only ever added; sealing gives each its place in a chain of digests."""

    at = models.DateTimeField(default=clock.now, db_index=True)
    actor = models.CharField(max_length=150)
    """The person, also behind a job."""
    job_id = models.CharField(max_length=40, blank=True)
    verb = models.CharField(max_length=60)
    object = models.CharField(max_length=400)
    branch = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=20, default=ALLOWED)
    detail = models.JSONField(default=dict)
    count = models.PositiveIntegerField(default=1)
    """How often in the minute or hour that begins at `at`, for reads and refusals; they are counted until they are sealed."""
    batch = models.CharField(max_length=64, null=True)  # noqa: DJ001 - NULL: an act of its own, of which there may be many
    """Names what is counted together."""
    position = models.PositiveBigIntegerField(null=True, unique=True)
    """Its place in the chain; NULL until it is sealed."""
    chain = models.CharField(max_length=64, blank=True)

    class Meta(TypedModelMeta):
        ordering: ClassVar = ["-id"]
        # No more than these: each commit to a table adds a row.
        indexes: ClassVar = [models.Index(fields=["object", "id"], name="audit_by_object")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["batch"], condition=models.Q(position=None, batch__isnull=False), name="audit_batch_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.object}: {self.outcome}"

    @property
    def detail_texts(self) -> list[tuple[str, str]]:
        """The parts of the detail as texts; what is no text itself as JSON."""
        return [
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            for name, value in self.detail.items()
        ]


class AuditHead(models.Model):
    """The end of the audit log's chain, one row; a copy is kept in the installation's home."""

    position = models.PositiveBigIntegerField(default=0)
    chain = models.CharField(max_length=64, blank=True)
    mac = models.CharField(max_length=64, blank=True)
    reads_removed_until = models.DateTimeField(null=True)
    """Reads and refusals of before were removed, for their age."""
    removed_until = models.DateTimeField(null=True)
    """Everything of before was."""

    def __str__(self) -> str:
        return f"{self.position} {self.chain}"


class AuditGap(models.Model):
    """Entries that were removed for their age: the chain goes on behind them from the digest that is kept here."""

    first = models.PositiveBigIntegerField(unique=True)
    last = models.PositiveBigIntegerField(unique=True)
    chain = models.CharField(max_length=64)
    """The digest of the last of them."""
    mac = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"

    def is_genuine(self, *, key: str) -> bool:
        """Return whether who removed them had the key."""
        return hmac.compare_digest(self.mac, mac_of_gap(self.first, self.last, self.chain, key=key))
