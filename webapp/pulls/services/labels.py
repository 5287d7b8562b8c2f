"""Labels of repositories and of pull requests, and who sees to a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import can_repository, check_repository
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services import record_audit
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.pulls.models import Assignee, Label, PullLabel
from webapp.pulls.queries.reviewers import may_ask
from webapp.pulls.rules.labels import TONES, explain_name
from webapp.pulls.services.remarks import record_event, record_pull_act

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Repository

MOST_LABELS = 100
"""Of a repository: its form for a pull request lists them all."""
MOST_ASSIGNED = 20


def set_label(*, repository: Repository, name: str, tone: str, by: Principal) -> Label:
    """Make a label of a repository, or give the one of that name another colour.

    Raises:
        InvalidInput: no such colour, or a name that a label cannot have.
        Conflict: the repository has as many labels as it may have.

    """
    check_repository(by, repository.name, "write")
    name = name.strip()
    problem = explain_name(name)
    if problem:
        raise InvalidInput(problem, errors={"name": [problem]})
    if tone not in TONES:
        message = f"The tone of a label is one of {', '.join(TONES)}."
        raise InvalidInput(message, errors={"tone": [message]})
    labels = Label.objects.filter(repository=repository)
    if labels.count() >= MOST_LABELS and not labels.filter(name=name).exists():
        raise Conflict(f"A repository has at most {MOST_LABELS} labels.", code="too_many_labels")
    with transaction.atomic():
        label, _ = Label.objects.update_or_create(repository=repository, name=name, defaults={"tone": tone})
        record_audit(by=by, verb="set_label", object=repository.name, detail={"label": name, "tone": tone})
    return label


def remove_label(*, label: Label, by: Principal) -> None:
    """Take a label away, from all pull requests that have it."""
    check_repository(by, label.repository.name, "write")
    with transaction.atomic():
        label.delete()
        record_audit(by=by, verb="remove_label", object=label.repository.name, detail={"label": label.name})


def label_pull(
    *, pull: PullRequest, labels: Sequence[str], by: Principal, shown: Collection[str] | None = None
) -> None:
    """Give a pull request exactly these labels of its repository; of `shown` ones only what was changed is changed.

    Raises:
        PermissionDenied: neither who opened it nor a writer of the repository.
        InvalidInput: the repository has no such label.

    """
    _check_may_sort(pull, by)
    labels = _keep_others(pull.labels.values_list("label__name", flat=True), labels, shown)
    chosen = list(Label.objects.filter(repository=pull.repository, name__in=labels))
    missing = sorted(set(labels) - {label.name for label in chosen})
    if missing:
        message = f"{pull.repository.name} has no label {', '.join(missing)}."
        raise InvalidInput(message, errors={"labels": [message]})
    with transaction.atomic():
        held = {row.label.name for row in pull.labels.select_related("label")}
        pull.labels.exclude(label__in=chosen).delete()
        PullLabel.objects.bulk_create([PullLabel(pull=pull, label=label) for label in chosen], ignore_conflicts=True)
        _note(pull, "labelled", "label_pull", before=held, after={label.name for label in chosen}, by=by)


def assign_pull(
    *, pull: PullRequest, users: Sequence[str], by: Principal, shown: Collection[str] | None = None
) -> None:
    """Say who sees to a pull request: exactly these people; of `shown` ones only what was changed is changed.

    Raises:
        PermissionDenied: neither who opened it nor a writer of the repository.
        InvalidInput: too many, or one who is not there or may not see it.

    """
    _check_may_sort(pull, by)
    users = _keep_others(pull.assignees.values_list("user__username", flat=True), users, shown)
    people = list(User.objects.filter(username__in=users, is_active=True))
    missing = sorted(set(users) - {user.username for user in people})
    name = pull.repository.name
    missing = missing or [
        user.username for user in people if not can_repository(principal_for_user(user), name, "read")
    ]
    if missing:
        message = f"{', '.join(missing)} may not see {name}, or is nobody."
        raise InvalidInput(message, errors={"users": [message]})
    if len(people) > MOST_ASSIGNED:
        message = f"At most {MOST_ASSIGNED} people see to a pull request."
        raise InvalidInput(message, errors={"users": [message]})
    with transaction.atomic():
        held = {row.user.username for row in pull.assignees.select_related("user")}
        pull.assignees.exclude(user__in=people).delete()
        Assignee.objects.bulk_create([Assignee(pull=pull, user=user) for user in people], ignore_conflicts=True)
        _note(pull, "assigned", "assign_pull", before=held, after={user.username for user in people}, by=by)


def _keep_others(now: Iterable[str], chosen: Sequence[str], shown: Collection[str] | None) -> list[str]:
    """Return names as a form leaves them: it adds and removes what its user did, and keeps what others did since.

    Args:
        now: the names that there are.
        chosen: the names that were sent.
        shown: the names that the form was filled with; None if the sent ones replace all.

    """
    if shown is None:
        return list(chosen)
    held = set(now)
    return sorted((held - (set(shown) - set(chosen))) | (set(chosen) - set(shown)))


def _check_may_sort(pull: PullRequest, by: Principal) -> None:
    check_repository(by, pull.repository.name, "read")
    if not may_ask(by, pull):
        raise PermissionDenied("Only who opened a pull request and writers of the repository sort it.")


def _note(
    pull: PullRequest, kind: str, verb: str, *, before: Collection[str], after: Collection[str], by: Principal
) -> None:
    """Write down what was added and taken away, if anything was."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    if added or removed:
        record_event(pull=pull, kind=kind, actor=by.username, data={"added": added, "removed": removed})
    record_pull_act(pull, verb, by=by, added=added, removed=removed)
