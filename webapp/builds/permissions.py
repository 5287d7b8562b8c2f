"""Who may see a build: whoever may see its repository, or, without one, every dataset that it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.accounts import permissions as accounts
from webapp.builds.models import Build
from webapp.core import names
from webapp.core.errors import NotFound, find_refusal, hidden

if TYPE_CHECKING:
    from webapp.builds.rules.values import BuildPlan
    from webapp.core.principals import Principal


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
    check_plan_inputs(principal, plan)
    writes = {names.folder_of(output.path): output for job in plan.running_jobs for output in job.outputs}
    for output in writes.values():
        accounts.check_dataset(principal, output.path, "write", output.branch)


def check_plan_inputs(principal: Principal, plan: BuildPlan) -> None:
    """Refuse whoever may not read every input of a plan."""
    reads = {names.folder_of(choice.path): choice for job in plan.jobs for choice in job.inputs}
    for choice in reads.values():
        accounts.check_dataset(principal, choice.path, "read", choice.branch)


def find_start_problem(principal: Principal, plan: BuildPlan) -> str:
    """Return why somebody may not start a plan; empty when they may."""
    return find_refusal(check_plan, principal, plan)


def find_steer_problem(principal: Principal, build: Build) -> str:
    """Return why somebody may not cancel a build or try it again; empty when they may."""
    return find_refusal(check_steer, principal, build)


def check_steer(principal: Principal, build: Build) -> None:
    """Refuse whoever may not see the build, or not write what it writes.

    Rights are those on a dataset's top folder, so each folder is asked for once.
    """
    check_read(principal, build)
    for path in {names.folder_of(path): path for path in build.targets}.values():
        accounts.check_dataset(principal, path, "write", build.branch)


def visible_builds(principal: Principal) -> Q:
    """Return the condition that somebody may see a build."""
    repositories = accounts.visible_repositories(principal)
    if repositories is None:
        return Q()
    return Q(repository__name__in=repositories) | Q(repository=None, by_id=principal.user_id)
