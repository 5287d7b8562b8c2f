"""What `manage.py check --deploy` finds in settings that let users read more than their rights."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core import checks

from webapp.runtime.spark_folders import is_spark_shared


def check_spark_is_apart(**_options: Any) -> list[checks.CheckMessage]:
    """Warn of a Spark server that shows each transform the tables of all."""
    if not is_spark_shared():
        return []
    allowed = ", ".join(sorted(settings.TRIBUTARY_SPARK_REPOSITORIES))
    return [
        checks.Warning(
            f"Spark transforms of {allowed or 'every repository'} can read every table that the cluster of SPARK_REMOTE can "
            "read, with its hidden columns.",
            hint=f"{'Keep' if allowed else 'List'} only repositories whose writers may read all data in "
            "TRIBUTARY_SPARK_REPOSITORIES, or unset SPARK_REMOTE: the embedded server shows a job its own tables alone.",
            id="tributary.W001",
        )
    ]


def check_keys_are_narrow(**_options: Any) -> list[checks.CheckMessage]:
    """Warn of keys to the object store that open the tables of all."""
    if not settings.TRIBUTARY_S3_SHARE_KEYS or settings.TRIBUTARY_S3_ROLE:
        return []
    return [
        checks.Warning(
            "Every job, and every user who can read one table, gets keys to all tables of the bucket, with their hidden "
            "columns.",
            hint="Set TRIBUTARY_S3_ROLE and unset TRIBUTARY_S3_SHARE_KEYS.",
            id="tributary.W002",
        )
    ]
