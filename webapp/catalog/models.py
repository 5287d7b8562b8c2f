"""Namespaces, tables, views: names and pointers. Everything else about a table is in its metadata file."""

from typing import ClassVar
from uuid import uuid4

from django.db import models

from webapp.catalog.rules.metadata import UUID_CHARACTERS


class Namespace(models.Model):
    """A namespace; `path` is its levels joined by the unit separator, which no level can contain."""

    path = models.CharField(max_length=1000, unique=True)
    parent = models.ForeignKey("self", null=True, blank=True, on_delete=models.PROTECT, related_name="children")
    properties = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        """Return the dotted name."""
        return ".".join(self.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels of the namespace."""
        return tuple(self.path.split("\x1f"))


class Table(models.Model):
    """A table's name and the pointer to its current metadata file.

    The pointer moves by compare-and-swap on `version`; nothing else guards it, and nothing else has to.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="tables")
    name = models.CharField(max_length=255)
    location = models.CharField(max_length=1500, unique=True)
    metadata_location = models.CharField(max_length=1700)
    version = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    uuid = models.CharField(max_length=UUID_CHARACTERS, default="", db_default="")
    """That of the metadata; empty in rows of earlier releases, until the next commit."""
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["namespace", "name"], name="table_name_in_namespace"),
        ]

    def __str__(self) -> str:
        """Return the dotted name."""
        return ".".join((*self.namespace.levels, self.name))


class View(models.Model):
    """A view's name and the pointer to its current metadata file; shared by all branches."""

    namespace = models.ForeignKey(Namespace, on_delete=models.PROTECT, related_name="views")
    name = models.CharField(max_length=255)
    location = models.CharField(max_length=1500)
    metadata_location = models.CharField(max_length=1700)
    version = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    uuid = models.CharField(max_length=UUID_CHARACTERS, default="", db_default="")
    """That of the metadata; empty in rows of earlier releases, until the next commit."""
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["namespace", "name"], name="view_name_in_namespace"),
        ]

    def __str__(self) -> str:
        """Return the dotted name."""
        return ".".join((*self.namespace.levels, self.name))


class StagedLocation(models.Model):
    """A place that a client has chosen and writes files to before its table is there; nobody else may have it meanwhile."""

    location = models.CharField(max_length=1500, unique=True)
    user_id = models.BigIntegerField()
    staged_at = models.DateTimeField()

    def __str__(self) -> str:
        """Return the location."""
        return self.location


class KeptAnswer(models.Model):
    """The answer to a request that carried an Idempotency-Key, stored with the effect it had."""

    key = models.CharField(max_length=64)
    user_id = models.BigIntegerField()
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user_id", "key"], name="idempotency_key_of_user"),
        ]
        # As the releases before called it: their processes may run beside this one's.
        db_table = "catalog_idempotencyrecord"

    def __str__(self) -> str:
        """Return the key."""
        return self.key


class ScanPlan(models.Model):
    """A scan that a client has had planned: enough to plan any page of it again, on any server."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    table = models.ForeignKey(Table, on_delete=models.CASCADE, related_name="plans")
    user_id = models.BigIntegerField()
    request = models.JSONField()
    snapshot_ids = models.JSONField(default=list)
    schema_id = models.IntegerField()
    is_incremental = models.BooleanField(default=False)
    is_cancelled = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        """Return the id."""
        return str(self.id)
