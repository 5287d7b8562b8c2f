"""Asking people and groups for a review."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib.auth.models import Group
from django.db import transaction

from webapp.accounts.models import User
from webapp.accounts.permissions import can_repository, check_repository
from webapp.accounts.queries import principal_for_user
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, PermissionDenied
from webapp.pulls import signals
from webapp.pulls.models import PullRequest, ReviewRequest
from webapp.pulls.queries.pulls import list_owned
from webapp.pulls.queries.reviewers import list_reviewers, may_ask
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.remarks import record_event, record_pull_act

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webapp.core.principals import Principal

MOST_AT_ONCE = 50


def ask_reviewers(*, pull: PullRequest, by: Principal, users: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
    """Ask people and groups for a review, or ask again who has given one since they were asked.

    Who is asked already and has not answered is not asked twice.

    Raises:
        PermissionDenied: neither who opened it nor a writer of the repository.
        InvalidInput: nobody, too many, one who is not there or may not see it, or who opened it.
        Conflict: it is not open.

    """
    _check_may_ask(pull, by)
    people, teams = _find_people(users), _find_groups(groups)
    if not 0 < len(people) + len(teams) <= MOST_AT_ONCE:
        message = f"Name one to {MOST_AT_ONCE} people or groups."
        raise InvalidInput(message, errors={"users": [message]})
    for user in people:
        _check_may_review(pull, user)
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; it takes no more reviews.", code="not_open")
    waiting = {
        (standing.name, standing.is_group)
        for standing in list_reviewers(pull, uncounted=())
        if standing.asked_at is not None and not standing.state.is_answered
    }
    people = [user for user in people if (user.username, False) not in waiting]
    teams = [group for group in teams if (group.name, True) not in waiting]
    if people or teams:
        with transaction.atomic():
            _write_requests(pull, people, teams, by=by)
            names = {"users": [user.username for user in people], "groups": [group.name for group in teams]}
            record_event(pull=pull, kind="review_asked", actor=by.username, data=names)
            record_pull_act(pull, "ask_reviewers", by=by, **names)


def ask_owners(*, pull: PullRequest) -> None:
    """Ask the owners of what an open pull request changes for a review, each once: whoever is asked no more is left alone.

    Names that nobody has are passed over, as are those who may not see the repository; the rules that ask for an
    approval of theirs name them.
    """
    if pull.draft:
        return
    owned = list_owned(pull, pull.datasets.all())
    if not owned:
        return
    with transaction.atomic():
        PullRequest.objects.select_for_update().get(pk=pull.pk)  # somebody else may be looking, too
        earlier = _list_ever_asked(pull)
        names = {name for change in owned for name in change.owners.people} - earlier["users"]
        people = [
            user
            for user in User.objects.filter(username__in=names, is_active=True).exclude(pk=pull.author_id)
            if can_repository(principal_for_user(user), pull.repository.name, "read")
        ]
        teams = {group for change in owned for group in change.owners.groups} - earlier["groups"]
        groups = list(Group.objects.filter(name__in=teams).prefetch_related("user_set"))
        if people or groups:
            _write_requests(pull, people, groups, by=principal_for_user(pull.author))
            reviewers = {"users": [user.username for user in people], "groups": [group.name for group in groups]}
            record_event(pull=pull, kind="review_asked", data={**reviewers, "owners": True})
            record_pull_act(pull, "ask_reviewers", by=None, **reviewers)


def _list_ever_asked(pull: PullRequest) -> dict[str, set[str]]:
    """Return the names of those who were ever asked, or reviewed it unasked."""
    events = pull.events.filter(kind="review_asked").values_list("data", flat=True)
    reviewed = pull.reviews.values_list("reviewer__username", flat=True)
    return {
        "users": {*reviewed, *(name for data in events for name in data.get("users", ()))},
        "groups": {name for data in events for name in data.get("groups", ())},
    }


def unask_reviewers(*, pull: PullRequest, by: Principal, users: Sequence[str] = (), groups: Sequence[str] = ()) -> None:
    """Ask people and groups no more; what they said stays.

    Raises:
        PermissionDenied: neither who opened it nor a writer of the repository.
        InvalidInput: none of them is asked.

    """
    _check_may_ask(pull, by)
    requests = ReviewRequest.objects.filter(pull=pull)
    chosen = requests.filter(user__username__in=users) | requests.filter(group__name__in=groups)
    with transaction.atomic():
        if not ReviewRequest.objects.filter(pk__in=list(chosen.values_list("pk", flat=True))).delete()[0]:
            message = "Nobody of these is asked for a review."
            raise InvalidInput(message, errors={"users": [message]})
        names = {"users": list(users), "groups": list(groups)}
        record_event(pull=pull, kind="review_unasked", actor=by.username, data=names)
        record_pull_act(pull, "unask_reviewers", by=by, **names)


def _check_may_ask(pull: PullRequest, by: Principal) -> None:
    check_repository(by, pull.repository.name, "read")
    if not may_ask(by, pull):
        raise PermissionDenied("Only who opened a pull request and writers of the repository ask for reviews.")


def _check_may_review(pull: PullRequest, user: User) -> None:
    if user.pk == pull.author_id:
        message = f"{user.username} opened it, and reviews of one's own do not count. Ask somebody else."
        raise InvalidInput(message, errors={"users": [message]})
    if not can_repository(principal_for_user(user), pull.repository.name, "read"):
        message = f"{user.username} may not see {pull.repository.name}. A maintainer gives them a role first."
        raise InvalidInput(message, errors={"users": [message]})


def _find_people(names: Sequence[str]) -> list[User]:
    people = list(User.objects.filter(username__in=names, is_active=True).order_by("username"))
    _check_all_found(names, {user.username for user in people}, field="users")
    return people


def _find_groups(names: Sequence[str]) -> list[Group]:
    groups = list(Group.objects.filter(name__in=names).prefetch_related("user_set").order_by("name"))
    _check_all_found(names, {group.name for group in groups}, field="groups")
    return groups


def _check_all_found(names: Sequence[str], existing: set[str], *, field: str) -> None:
    missing = sorted(set(names) - existing)
    if missing:
        message = f"There is no {field.removesuffix('s')} {', '.join(missing)}."
        raise InvalidInput(message, errors={field: [message]})


def _write_requests(pull: PullRequest, people: Sequence[User], groups: Sequence[Group], *, by: Principal) -> None:
    """Note who is asked, and announce it to them: members of a group, too, but for who opened it."""
    now = {"asked_at": clock.now(), "asked_by_id": by.user_id}
    for user in people:
        ReviewRequest.objects.update_or_create(pull=pull, user=user, group=None, defaults=now)
    for group in groups:
        ReviewRequest.objects.update_or_create(pull=pull, group=group, user=None, defaults=now)
    members = {user.pk for group in groups for user in group.user_set.all()} - {pull.author_id}
    users = {user.pk for user in people} | members
    signals.reviewers_asked.send(sender=PullRequest, pull=pull, users=users, by=by)
