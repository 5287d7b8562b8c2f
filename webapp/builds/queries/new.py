"""The page of a new build: what can be chosen, and the plan of what is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webapp.accounts import permissions as accounts
from webapp.builds import permissions
from webapp.builds.models import Build
from webapp.builds.queries import chains, pages, planning, specs
from webapp.builds.rules.values import BuildPlan
from webapp.core import names
from webapp.core.errors import AppError, NotFound
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal


def read_new_build_page(
    principal: Principal, *, repository: str, branch: str, targets: tuple[str, ...], upstream: bool, force: bool
) -> pages.NewBuildPage:
    """Return what can be built on a branch and, for chosen targets, the plan or why there is none."""
    found = _choose_repository(principal, repository)
    branch = branch or found.default_branch
    names.check_branch_name(branch)
    published = specs.list_jobspecs(repository=found, branch=branch)
    outputs = tuple(sorted({each["path"] for spec in published for each in spec.spec["outputs"]}))
    chain = chains.default_chain(repository=found, branch=branch)
    build = Build(
        branch=branch, chain=list(chain), targets=list(targets), repository=found, upstream=upstream, force=force
    )
    plan, problem, code = _plan(principal, build) if targets else (None, "", "")
    waits_for = chains.find_unpublished(build=build)
    notes = chains.list_notes(build=build)
    if waits_for:
        notes = [
            *notes,
            f"The JobSpecs of {waits_for} are being published: the plan is made again when the build starts.",
        ]
    return pages.NewBuildPage(
        nav="builds",
        repo_bar={"name": found.name, "tab": "builds"},
        repository=found,
        branch=branch,
        branches=pages.list_branch_links(found, "/builds/new", repository=found.name),
        chain=chain,
        specs=tuple(published),
        outputs=outputs,
        targets=frozenset(targets),
        upstream=upstream,
        force=force,
        plan=plan,
        rows=pages.describe_plan(plan, "/") if plan else (),
        notes=tuple(notes),
        problem=problem,
        problem_code=code,
        may_build=accounts.can_repository(principal, found.name, "write"),
    )


def _choose_repository(principal: Principal, name: str) -> Repository:
    if name:
        return repositories.get_repository(principal, name)
    first = repositories.list_repositories(principal).first()
    if first is None:
        raise NotFound("There is no repository that you may see: make one first.")
    return first


def _plan(principal: Principal, build: Build) -> tuple[BuildPlan | None, str, str]:
    try:
        plan = planning.make_plan(build=build)
        permissions.check_plan(principal, plan)
    except AppError as error:
        return None, error.detail, error.code
    return plan, "", ""
