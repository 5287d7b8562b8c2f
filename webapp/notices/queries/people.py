"""Who is to be told of a fact."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Q
from django.db.models.functions import Lower

from webapp.accounts.models import Folder, RepositoryRole, User
from webapp.core.names import folder_of
from webapp.notices.models import Preference, Watch
from webapp.notices.rules.facts import Reason
from webapp.notices.rules.mentions import find_mentions
from webapp.pulls.models import Comment, Review

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.datasets.models import Dataset
    from webapp.pulls.models import PullRequest
    from webapp.repositories.models import Repository


class Addressee(NamedTuple):
    """Somebody who may be told, with the addresses that they have."""

    user_id: int
    account_address: str
    own_address: str | None

    @property
    def has_address(self) -> bool:
        """Whether a mail to them would go anywhere."""
        return bool(self.own_address or self.account_address)


def list_mentioned(text: str, *, before: str = "") -> list[int]:
    """Return whom a text names, and its earlier version did not."""
    names = find_mentions(text) - find_mentions(before)
    if not names:
        return []
    people = User.objects.annotate(name=Lower("username")).filter(name__in=names, is_active=True)
    return list(people.values_list("pk", flat=True))


def list_in_thread(comment: Comment) -> list[int]:
    """Return who wrote in the thread of a reply."""
    if comment.thread_id is None:
        return []
    thread = Comment.objects.filter(Q(pk=comment.thread_id) | Q(thread=comment.thread_id))
    return list(thread.order_by().values_list("author", flat=True).distinct())


def list_taking_part(pull: PullRequest) -> list[int]:
    """Return who opened a pull request, reviewed it or spoke in it."""
    spoke = Comment.objects.filter(pull=pull).order_by().values_list("author", flat=True)
    reviewed = Review.objects.filter(pull=pull).order_by().values_list("reviewer", flat=True)
    return [pull.author_id, *spoke.union(reviewed)]


def list_watchers(*, repository: Repository | None = None, datasets: Collection[int] = ()) -> QuerySet[Watch, int]:
    """Return who watches a repository, or one of these datasets."""
    watched = Q(dataset__in=datasets) if datasets else Q()
    watched = watched | Q(repository=repository) if repository else watched
    watches = Watch.objects.filter(watched) if watched else Watch.objects.none()
    return watches.order_by().values_list("user", flat=True).distinct()


def list_addressees(
    users: Collection[int], *, repository: Repository | None, dataset: Dataset | None
) -> list[Addressee]:
    """Return those who are still here and may see a repository and a dataset, asked for at once."""
    people = User.objects.filter(pk__in=users, is_active=True)
    if repository is not None:
        people = people.filter(_has_role(repository.name))
    if dataset is not None:
        folders = Folder.objects.annotate(lower=Lower("name")).filter(lower=folder_of(dataset.path).lower())
        owner = folders.values_list("repository", "creator_id").first()
        people = people.filter(_owns(*owner) if owner else Q(is_superuser=True))
    rows = people.values_list("pk", "email", "mail_address__address")
    return [Addressee(*row) for row in rows]


def _owns(repository: str, creator_id: int | None) -> Q:
    return _has_role(repository) if repository else Q(is_superuser=True) | Q(pk=creator_id)


def _has_role(repository: str) -> Q:
    roles = RepositoryRole.objects.filter(repository=repository)
    return Q(is_superuser=True) | Q(pk__in=roles.values("user"))


def read_channels(reasons: Mapping[int, Reason]) -> dict[int, str]:
    """Return where each of these people wants to be told for their reason."""
    chosen = Preference.objects.filter(user__in=reasons, reason__in=set(reasons.values()))
    wishes = {(user, reason): channel for user, reason, channel in chosen.values_list("user", "reason", "channel")}
    return {user: wishes.get((user, reason.value), reason.channel) for user, reason in reasons.items()}
