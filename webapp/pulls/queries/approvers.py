"""Whose approval of a pull request does not count, and why."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from webapp.accounts.models import User
from webapp.accounts.permissions import can_repository
from webapp.accounts.queries import COMMIT_HOST, find_people, principal_for_user
from webapp.core.once import asked_once
from webapp.git.values import Person
from webapp.pulls.queries.loads import list_loaders
from webapp.pulls.rules.approvals import Grounds, Objection
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.git.values import CommitInfo
    from webapp.pulls.models import PullRequest

_TRAILER = re.compile(r"^co-authored-by:([^<\n]*)<([^>\n]*)>[ \t\r]*$", re.IGNORECASE | re.MULTILINE)
MOST_COMMITS = 10_000
"""Of a pull request, or of a push to it, that are looked at one by one."""


def list_ineligible(pull: PullRequest, *, reviewers: Iterable[User], base: str) -> dict[str, Objection]:
    """Return user name → why an approval by them does not count.

    Two people stand behind whatever is merged: who opened the pull request, wrote one of its commits or brought one
    to its branch, or loaded a file that merging loads, is on the one side, and so no approver. Names and addresses in
    commits are whatever their writer says; a forged one can only take an approval away.
    """
    people = {user.pk: user for user in reviewers}
    if not people:
        return {}
    objections = {
        user.username: objection for user in people.values() if (objection := _find_missing_right(pull, user))
    }
    if pull.author_id in people:
        objections[people[pull.author_id].username] = Objection(Grounds.OPENED)
    by_id, by_name = _list_makers(pull, base)
    for user in people.values():
        if objection := by_id.get(user.pk) or by_name.get(user.username):
            objections.setdefault(user.username, objection)
    return objections


@asked_once
def _list_makers(pull: PullRequest, base: str) -> tuple[dict[int, Objection], dict[str, Objection]]:
    """Return who brought or wrote a commit, by id, and who loaded a file, by user name: each with what they did."""
    commits = repositories.list_commits(pull.repository, pull.head_sha, not_in=base, limit=MOST_COMMITS)
    pushers = repositories.list_pushers(pull.repository, branch=pull.source, commits=[commit.sha for commit in commits])
    by_id = {user_id: Objection(Grounds.PUSHED, sha[:7]) for user_id, sha in pushers.items()}
    signed = [(person, commit) for commit in commits for person in (commit.author, commit.committer)]
    for user, commit in _find_users(signed):
        by_id.setdefault(user.pk, Objection(Grounds.WROTE, commit.short))
    by_name: dict[str, Objection] = {}
    for name, path in list_loaders(pull):
        by_name.setdefault(name, Objection(Grounds.LOADED, path))
    return by_id, by_name


def _find_missing_right(pull: PullRequest, user: User) -> Objection | None:
    if not user.is_active:
        return Objection(Grounds.INACTIVE)
    if not can_repository(principal_for_user(user), pull.repository.name, "write"):
        return Objection(Grounds.MAY_NOT_WRITE)
    return None


@asked_once
def list_co_authors(pull: PullRequest, base: str) -> dict[str, str]:
    """Return user name → the commit whose `Co-authored-by` names the user.

    Such a trailer takes no approval away: anybody can aim one at a reviewer, and committing a suggestion writes one.
    """
    commits = repositories.list_commits(pull.repository, pull.head_sha, not_in=base, limit=MOST_COMMITS)
    named = [
        (Person(name=name, email=email), commit)
        for commit in commits
        for name, email in _TRAILER.findall(commit.message)
    ]
    return {user.username: commit.short for user, commit in _find_users(named)}


def _find_users(named: Iterable[tuple[Person, CommitInfo]]) -> list[tuple[User, CommitInfo]]:
    """Return the users whom names or addresses in commits mean, each with a commit that names them."""
    by_email: dict[str, CommitInfo] = {}
    by_name: dict[str, CommitInfo] = {}
    for person, commit in named:
        by_email.setdefault(person.email.strip().lower(), commit)
        by_name.setdefault(person.name.strip().lower(), commit)
    pairs = []
    for user in find_people(emails=by_email.keys(), names=by_name.keys()):
        addresses = (user.email.lower(), f"{user.username.lower()}@{COMMIT_HOST}")
        names = (user.username.lower(), user.get_full_name().lower())
        naming = [by_email.get(address) for address in addresses if address] + [
            by_name.get(name) for name in names if name
        ]
        pairs += [(user, commit) for commit in naming if commit is not None][:1]
    return pairs
