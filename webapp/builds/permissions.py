"""Who may see a build: whoever may see its repository, or, without one, every dataset that it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.accounts import permissions as accounts
from webapp.builds.models import Build
from webapp.core import names
from webapp.core.errors import AppError, NotFound, hidden

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal
    from webapp.builds.rules.values import BuildPlan


def check_read(principal: Principal, build: Build) -> None:
    """Refuse as if it were not there."""
    try:
        if build.repository is not None:
            accounts.check_repository(principal, build.repository.name, "read")
        else:
            for path in build.targets:
                accounts.check_dataset(principal, path, "read")
    except NotFound as error:
        message = f"There is no build {build.pk}, or you may not see it."
        raise hidden(NotFound(message)) from error


def check_plan(principal: Principal, plan: BuildPlan) -> None:
    """Refuse whoever may not write every output and read every input of a plan.

    Rights are those on a dataset's top folder, so each folder is asked for once.
    """
    reads = {names.folder_of(each.path): each for job in plan.jobs for each in job.inputs}
    writes = {names.folder_of(each.path): each for job in plan.running_jobs for each in job.outputs}
    for read in reads.values():
        accounts.check_dataset(principal, read.path, "read", read.branch)
    for written in writes.values():
        accounts.check_dataset(principal, written.path, "write", written.branch)


def can_steer(principal: Principal, build: Build) -> bool:
    """Whether somebody may cancel a build or try it again."""
    return find_steer_problem(principal, build) == ""


def find_steer_problem(principal: Principal, build: Build) -> str:
    """Return why somebody may not cancel a build or try it again; empty when they may."""
    try:
        check_steer(principal, build)
    except AppError as error:
        return error.detail
    return ""


def check_steer(principal: Principal, build: Build) -> None:
    """Refuse whoever may not write what the build writes."""
    check_read(principal, build)
    for path in build.targets:
        accounts.check_dataset(principal, path, "write", build.branch)


def visible_builds(principal: Principal) -> Q:
    """Return the condition that somebody may see a build."""
    repositories = accounts.visible_repositories(principal)
    if repositories is None:
        return Q()
    return Q(repository__name__in=repositories) | Q(repository=None, by_id=principal.user_id)
