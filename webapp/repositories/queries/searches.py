"""Which commits of a history somebody asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Q
from django.db.models.functions import Lower

from webapp.accounts.queries import find_addresses
from webapp.core.filters import ListFilter, offer

if TYPE_CHECKING:
    from collections.abc import Callable

    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFilter(ListFilter):
    """What somebody wants of a history."""

    path: str = offer(words="changed this file or folder")
    q: str = offer(words="part of the message, or how the hash begins")
    author: str = offer(words="part of the author's user name, name or address")

    @property
    def is_search(self) -> bool:
        """Whether commits are chosen by what they say of themselves."""
        return bool(self.q or self.author)


def find_matching(repository: Repository, filters: CommitFilter) -> set[str]:
    """Return the hashes of the commits with a row that say what is asked for."""
    said = Q(message__icontains=filters.q) | Q(sha__startswith=filters.q.lower())
    by = (
        Q(author_name__icontains=filters.author)
        | Q(author_email__icontains=filters.author)
        | Q(address__in=find_addresses(filters.author))
    )
    rows = repository.commits.alias(address=Lower("author_email"))
    return set(rows.filter(said if filters.q else Q(), by if filters.author else Q()).values_list("sha", flat=True))


def make_match(filters: CommitFilter) -> Callable[[CommitInfo], bool]:
    """Return what says the same of a commit that Git tells of."""
    q, author = filters.q.lower(), filters.author.lower()
    addresses = find_addresses(filters.author) if author else frozenset()

    def match(commit: CommitInfo) -> bool:
        name, address = commit.author.name.lower(), commit.author.email.lower()
        is_by = author in name or author in address or address in addresses
        return (q in commit.message.lower() or commit.sha.startswith(q)) and is_by

    return match
