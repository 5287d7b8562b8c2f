"""Building the sides of a pull request: the source branch, and the target's code on the same inputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from webapp.accounts.permissions import check_repository
from webapp.builds import queries as builds
from webapp.builds import services as build_services
from webapp.core.errors import Conflict, InvalidInput
from webapp.datasets import queries as datasets
from webapp.datasets import services as dataset_services
from webapp.datasets.models import DatasetBranch
from webapp.pulls.models import PullDataset, PullRequest
from webapp.pulls.queries import pulls as queries
from webapp.pulls.rules import states
from webapp.pulls.rules.datasets import find_upstream
from webapp.pulls.rules.sides import BASE, HEAD, REVIEW_PREFIX, SIDES, read_review_branch, review_branch
from webapp.pulls.rules.states import PullState
from webapp.pulls.services.pulls import refresh_pull
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository
from webapp.repositories.rules.states import PublicationState

if TYPE_CHECKING:
    from webapp.builds.models import Build
    from webapp.core.principals import Principal
    from webapp.pulls.queries.specs import PullSpecs


def build_pull(
    *,
    pull: PullRequest,
    by: Principal,
    sides: Sequence[str] = (HEAD,),
    scope: str = states.MODIFIED,
    force: bool = False,
) -> list[Build]:
    """Build what the pull request modifies, or also what is downstream: on the source branch, on the base side, or both.

    The base side is what the target's JobSpecs, as the source left them, make of the inputs that the head side reads. The
    target is not written.

    Raises:
        Conflict: the pull request is not open, or the JobSpecs of its head are not published yet.
        InvalidInput: no such side, or nothing to build on one.

    """
    if not sides or set(sides) - set(SIDES):
        raise InvalidInput("Choose among the sides head and base.", errors={"sides": ["head, base or both."]})
    if pull.state != PullState.OPEN:
        raise Conflict(f"The pull request is {pull.state}; there is nothing to build.", code="not_open")
    check_repository(by, pull.repository.name, "write")
    refresh_pull(pull=pull)
    specs = queries.read_specs(pull=pull)
    rows = list(pull.datasets.all())
    downstream = [row.path for row in rows if row.change == states.AFFECTED and scope == states.AFFECTED]
    changed = sorted([*queries.list_rebuilt(rows), *downstream])
    head = [path for path in changed if path in specs.head_code]
    base = _list_base_targets(rows, specs, changed)
    if not head:
        _check_published(pull)
    _check_targets(pull, {HEAD: head, BASE: base}, sides)
    pins = _find_pins(pull, specs, head, is_head_built=HEAD in sides) if BASE in sides else {}
    started = []
    if HEAD in sides:
        started.append(_build_head(pull, head, by, pins, force=force))
    if BASE in sides:
        started.append(_build_base(pull, specs, base, by, pins, force=force, is_consequence=HEAD in sides))
    return started


def _check_published(pull: PullRequest) -> None:
    """Refuse where nobody knows yet what the head changes, which is not the same as that it changes nothing."""
    publication = repositories.get_publication(pull.repository, pull.source, pull.head_sha)
    if publication is None or publication.status == PublicationState.PENDING:
        message = "The JobSpecs of the head are not published yet: what there is to build is known when they are."
        raise Conflict(message, code="publication_pending")


def _check_targets(pull: PullRequest, targets: Mapping[str, Collection[str]], sides: Sequence[str]) -> None:
    """Refuse where a side has nothing to build, before anything is started."""
    if HEAD in sides and not targets[HEAD]:
        raise InvalidInput("The branch changes no JobSpec, so there is nothing to build.", code="nothing_to_build")
    if BASE in sides and not targets[BASE]:
        message = f"No dataset of this pull request is made by a JobSpec on {pull.target}, so there is no base side."
        raise InvalidInput(message, code="nothing_to_build")


def _list_base_targets(rows: Collection[PullDataset], specs: PullSpecs, changed: Collection[str]) -> list[str]:
    """Return what the base side makes: what is asked for, and what it would else read in the target's version.

    That is what lies above it and has a head side of its own.
    """
    above = find_upstream(changed, specs.base_inputs)
    targets = {*changed, *(row.path for row in rows if row.path in above and row.after_id)}
    return [row.path for row in rows if row.path in targets and row.path in specs.base_code]


def _build_head(pull: PullRequest, targets: list[str], by: Principal, pins: Mapping[str, str], *, force: bool) -> Build:
    order = build_services.BuildOrder(
        branch=pull.source,
        targets=targets,
        repository=pull.repository,
        force=force,
        pins=pins,
        title=f"{pull.title} (#{pull.number})"[:250],
    )
    return build_services.start_build(order=order, by=by, trigger="pull")


def _build_base(
    pull: PullRequest,
    specs: PullSpecs,
    targets: list[str],
    by: Principal,
    pins: Mapping[str, str],
    *,
    force: bool,
    is_consequence: bool,
) -> Build:
    order = build_services.BuildOrder(
        branch=review_branch(pull.repository.name, pull.number),
        targets=targets,
        fallbacks=[pull.target],
        repository=pull.repository,
        force=force,
        pins=pins,
        code_sha=specs.base_sha,
        title=f"{pull.target} on the inputs of #{pull.number}"[:250],
    )
    return build_services.start_build(
        order=order, by=by, trigger="review", is_trusted=True, is_consequence=is_consequence
    )


def _find_pins(pull: PullRequest, specs: PullSpecs, targets: Collection[str], *, is_head_built: bool) -> dict[str, str]:
    """Return the transaction of each input that both sides are to read: what the head side will read, or what it has.

    What the code of neither side makes, such as data loaded on the branch, is such an input, too.
    """
    ours = specs.made_paths.intersection(row.path for row in pull.datasets.all())
    if is_head_built:
        chain = builds.default_chain(repository=pull.repository, branch=pull.source)
        outside = {path for target in targets for path in specs.head_inputs[target]} - ours
        resolved = {path: datasets.resolve_input(path=path, chain=chain) for path in outside}
        return {path: source[1].pk for path, source in resolved.items() if source is not None}
    ids = [row.after_id for row in pull.datasets.all() if row.after_id]
    read = [committed.inputs for committed in builds.describe_transactions(ids).values()]
    return {path: transaction for inputs in read for path, transaction in inputs.items() if path not in ours}


def sweep_reviews() -> int:
    """Remove the base sides of pull requests that are no longer open, with their JobSpecs."""
    branches = DatasetBranch.objects.filter(name__startswith=REVIEW_PREFIX).select_related("dataset")
    gone = [branch for branch in branches if not _is_open(branch.name)]
    removed = dataset_services.remove_branches(branches=gone)
    for repository in Repository.objects.filter(jobspecs__branch__startswith=REVIEW_PREFIX).distinct():
        for name in (
            repository.jobspecs.filter(branch__startswith=REVIEW_PREFIX).values_list("branch", flat=True).distinct()
        ):
            if not _is_open(name):
                build_services.unpublish(repository=repository, branch=name)
    return removed


def _is_open(branch: str) -> bool:
    repository, number = read_review_branch(branch) or ("", 0)
    return PullRequest.objects.filter(repository__name=repository, number=number, state=PullState.OPEN).exists()
