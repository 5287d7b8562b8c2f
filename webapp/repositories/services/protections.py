"""What it takes to move a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.db import transaction

from webapp.accounts import services as accounts
from webapp.core.errors import InvalidInput, NotFound
from webapp.core.names import check_branch_name, check_is_no_ref
from webapp.repositories import permissions
from webapp.repositories.models import Protection
from webapp.repositories.queries.code import find_kind
from webapp.repositories.queries.statuses import is_ever_reported
from webapp.repositories.rules.checks import CHECKS, QUERIES, find_check, is_query
from webapp.repositories.rules.patterns import can_match

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository

MAX_APPROVALS = 20


def set_protection(
    *,
    repository: Repository,
    branch: str,
    approvals: int = 1,
    groups: Sequence[str] = (),
    paths: Sequence[Mapping[str, Any]] = (),
    checks: Sequence[str] = (),
    resolved_threads: bool = False,
    owners: bool = False,
    allow_bypass: bool = True,
    by: Principal,
) -> Protection:
    """Protect a branch, or change what its protection asks for."""
    permissions.check_maintain(by, repository)
    check_branch_name(branch)
    check_is_no_ref(branch)
    if not 0 <= approvals <= MAX_APPROVALS:
        message = f"The number of approvals is between 0 and {MAX_APPROVALS}."
        raise InvalidInput(message, code="approvals", errors={"approvals": [message]})
    rules = [_path_rule(rule) for rule in paths]
    required = _read_checks(repository, checks, branch=branch)
    chosen = _find_groups([*groups, *(rule["group"] for rule in rules)])
    with transaction.atomic():
        existing = permissions.find_protection(repository, branch)
        protection = existing or Protection(repository=repository, branch=branch)
        protection.approvals = approvals
        protection.paths = rules
        protection.checks = required
        protection.resolved_threads = resolved_threads
        protection.owners = owners
        protection.allow_bypass = allow_bypass
        protection.save()
        protection.groups.set([chosen[name] for name in dict.fromkeys(groups)])
        accounts.record_audit(
            by=by,
            verb="set_protection",
            object=f"{repository.name}:{branch}",
            detail={
                "approvals": approvals,
                "groups": list(groups),
                "paths": rules,
                "checks": protection.checks,
                "resolved_threads": resolved_threads,
                "owners": owners,
                "allow_bypass": allow_bypass,
            },
        )
    return protection


def remove_protection(*, repository: Repository, branch: str, by: Principal) -> None:
    """Let writers move a branch again."""
    permissions.check_maintain(by, repository)
    with transaction.atomic():
        protection = permissions.find_protection(repository, branch)
        if protection is None:
            message = f"Branch {branch} is not protected."
            raise NotFound(message, code="unknown_protection")
        protection.delete()
        accounts.record_audit(by=by, verb="remove_protection", object=f"{repository.name}:{branch}")


def _path_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    pattern, group = rule.get("pattern"), rule.get("group")
    approvals = rule.get("approvals", 1)
    if not isinstance(pattern, str) or not pattern or not isinstance(group, str) or not group:
        raise _wrong_rule("A path rule has a pattern and a group.")
    if unknown := sorted(set(rule) - {"pattern", "group", "approvals"}):
        raise _wrong_rule(f"A path rule has no {', '.join(unknown)}, only pattern, group and approvals.")
    if not can_match(pattern):
        raise _wrong_rule(f"No path can match {pattern}. Write it from the root, without empty parts, '.' or '..'.")
    if isinstance(approvals, bool) or not isinstance(approvals, int) or not 1 <= approvals <= MAX_APPROVALS:
        raise _wrong_rule(f"A path rule asks for 1 to {MAX_APPROVALS} approvals.")
    return {"pattern": pattern, "group": group, "approvals": approvals}


def _wrong_rule(message: str) -> InvalidInput:
    return InvalidInput(message, code="paths", errors={"paths": [message]})


def _read_checks(repository: Repository, names: Sequence[str], *, branch: str) -> list[str]:
    """Return the checks as they are called; one that nothing ever gives would block every merge for good."""
    called = {name: find_check(name) or name.strip() for name in names}
    unknown = [name for name in called.values() if not _is_given(repository, name, branch=branch)]
    if unknown:
        message = (
            f"There is no check {', '.join(unknown)}. A protection may require {', '.join(CHECKS)}, what a program"
            f" has reported of a commit of the repository, and a query of {branch}, such as {QUERIES}rows for"
            f" {QUERIES}rows.sql."
        )
        raise InvalidInput(message, code="unknown_check", errors={"checks": [message]})
    return list(dict.fromkeys(called.values()))


def _is_given(repository: Repository, name: str, *, branch: str) -> bool:
    """Return whether there is a check of this name; a query is, once the branch or the default one has its file."""
    if name in CHECKS:
        return True
    if not is_query(name):
        return is_ever_reported(repository, name)
    heads = [repository.git.find_head(place) for place in dict.fromkeys((branch, repository.default_branch))]
    return any(head is not None and find_kind(repository, head, f"{name}.sql") is not None for head in heads)


def _find_groups(names: Sequence[str]) -> dict[str, Group]:
    groups = {group.name: group for group in Group.objects.filter(name__in=set(names))}
    missing = sorted(set(names) - set(groups))
    if missing:
        message = f"There is no group {', '.join(missing)}."
        raise InvalidInput(message, code="unknown_group", errors={"groups": [message]})
    return groups
