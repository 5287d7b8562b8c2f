"""Who may see a build: whoever may see its repository, or, without one, every dataset that it builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from webapp.accounts import permissions as accounts
from webapp.builds.models import Build
from webapp.core import names
from webapp.core.errors import NotFound, PermissionDenied, find_refusal, hidden

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """Refuse a plan with an output that somebody may not write, or with code that would read hidden columns.

    Rights are those on a dataset's top folder, so each folder is asked for once.
    """
    check_code(plan)
    writes = {names.folder_of(output.path): output for job in plan.running_jobs for output in job.outputs}
    for output in writes.values():
        accounts.check_dataset(principal, output.path, "write", output.branch)


def check_code(plan: BuildPlan) -> None:
    """Refuse a plan with a job whose code may not read all columns of its datasets, whoever builds it.

    Raises:
        PermissionDenied: it names the repository, the dataset and its columns.

    """
    jobs = [job for job in plan.running_jobs if not job.is_load]
    read = {(job.repository, source.path) for job in jobs for source in job.inputs}
    read |= {(job.repository, output.path) for job in jobs for output in job.outputs}
    ruled = accounts.list_ruled({path for _, path in read})
    for repository, path in sorted(read):
        if path in ruled:
            check_code_of(repository, [path])


def check_code_of(repository: str, paths: Iterable[str]) -> None:
    """Refuse if the code of a repository may not read all columns of some datasets. A job can also read its old outputs.

    Raises:
        PermissionDenied: it names the repository, the dataset and its columns.

    """
    for path in paths:
        columns = accounts.list_sensitive_to_code(repository, path)
        if columns:
            message = (
                f"The code of {repository} may not read {path}: it has columns that are hidden from it "
                f"({', '.join(sorted(columns))}). The repository that owns the dataset can allow it: "
                f'sensitive_repositories = ["{repository}"] in its pipeline.toml.'
            )
            raise PermissionDenied(message, code="hidden_columns")


def check_inputs(principal: Principal, paths: Iterable[str]) -> None:
    """Refuse if somebody may not read all of some datasets, whether or not the datasets exist.

    Rights are those on a dataset's top folder, so each folder is asked for once.
    """
    for path in {names.folder_of(path): path for path in paths}.values():
        accounts.check_dataset(principal, path, "read")


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
