"""What programs of others say of commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from webapp.accounts import services as accounts
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput
from webapp.core.names import check_is_no_disguise, split_dataset_path
from webapp.repositories import permissions, queries, signals
from webapp.repositories.models import CommitStatus
from webapp.repositories.rules.checks import CHECKS, QUERIES, find_check, is_query

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MAX_STATUSES = 500
"""Of one commit: a thousand datasets are reported on in one status."""


def report_status(
    *,
    repository: Repository,
    sha: str,
    name: str,
    result: str,
    description: str = "",
    url: str = "",
    dataset: str = "",
    by: Principal,
) -> CommitStatus:
    """Say what a check found in a commit; what it said of it before is replaced.

    Raises:
        PermissionDenied: no writer of the repository.
        NotFound: it has no such commit.
        InvalidInput: a name that is a check of ours, or a dataset that is no path.
        Conflict: there are too many statuses of the commit.

    """
    permissions.check_write(by, repository)
    commit = queries.get_commit(repository, sha)
    if find_check(name) or is_query(name.strip()):
        message = (
            f"{', '.join(CHECKS)} are Tributary's own checks, and names that begin with {QUERIES} are those of queries"
            " of the repository. Report under another name."
        )
        raise InvalidInput(message, code="reserved_name", errors={"name": [message]})
    check_is_no_disguise(name, field="name")
    if dataset:
        split_dataset_path(dataset)
    key: dict[str, Any] = {"repository": repository, "sha": commit.sha, "name": name, "dataset": dataset}
    said = {"result": result, "description": description, "url": url, "reported_by_id": by.user_id}
    with transaction.atomic():
        others = repository.statuses.filter(sha=commit.sha).exclude(name=name, dataset=dataset)
        if others.count() >= MAX_STATUSES:
            raise Conflict(f"Commit {commit.sha[:7]} has {MAX_STATUSES} statuses.", code="too_many_statuses")
        status, _is_new = CommitStatus.objects.update_or_create(**key, defaults={**said, "reported_at": clock.now()})
        accounts.record_audit(
            by=by,
            verb="report_status",
            object=repository.name,
            detail={"sha": commit.sha, "name": name, "dataset": dataset, "result": result},
        )
        signals.status_reported.send(sender=CommitStatus, status=status)
    return status
