"""The page of a new build: what can be chosen, and the plan of what is chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webapp.builds import permissions, ports
from webapp.builds.models import Build
from webapp.builds.pages.lineage import describe_verdict
from webapp.builds.pages.links import link_dataset, list_branch_links
from webapp.builds.pages.ways_out import WayOut, find_way_out
from webapp.builds.queries import chains, planning, specs
from webapp.builds.queries.specs import SeenSpec
from webapp.builds.rules.freshness import FreshnessVerdict
from webapp.builds.rules.values import MAX_TARGETS, BuildPlan
from webapp.builds.services import BuildOrder
from webapp.core import names
from webapp.core.choices import MOST_CHOICES, Picker
from webapp.core.errors import AppError, InvalidInput, NotFound
from webapp.repositories import queries as repositories
from webapp.repositories.models import Repository

if TYPE_CHECKING:
    from webapp.core.principals import Principal

MAX_JUDGED = 500
"""So many JobSpecs are looked at for what is stale; of more, a page would take seconds."""


@dataclass(frozen=True, slots=True)
class NewBuild:
    """What somebody asked for on the page of a new build."""

    repository: str = ""
    branch: str = ""
    targets: tuple[str, ...] | None = None
    """None where nobody has chosen yet: what is stale by the branch's own changes is proposed then."""
    is_all: bool = False
    """Whether everything stale is proposed, whoever changed it."""
    upstream: bool = False
    downstream: bool = False
    """Whether what is made from the targets in this repository is built, too."""
    force: bool = False
    q: str = ""
    """What the datasets to choose from are searched for."""


@dataclass(frozen=True, slots=True)
class PlanPart:
    """The plan of what is chosen, or why there is none."""

    order: BuildOrder
    """Of all that is built: the page orders what it has shown."""
    targets: tuple[str, ...]
    """What is ticked."""
    more: int
    """Datasets below the targets that are built, too."""
    is_fresh: bool
    """Whether nothing is stale, so that none is proposed."""
    elsewhere: int
    """Stale datasets that the branch does not change, if nothing is proposed because there are only such."""
    plan: BuildPlan | None
    rows: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...]
    problem: str
    way_out: WayOut | None
    refusal: str
    """Why the reader may not start the plan; empty when they may."""


@dataclass(frozen=True, slots=True)
class TargetsPart:
    """The datasets to choose from: what is ticked, then the first that fit what is searched for."""

    outputs: tuple[Mapping[str, Any], ...]
    elsewhere: tuple[Mapping[str, Any], ...]
    """Those that are stale by no change of the branch."""
    others: int
    """How many more fit."""
    q: str


@dataclass(frozen=True, slots=True)
class NewBuildPage:
    """The form of a new build and, once targets are chosen, its plan."""

    nav: str
    repo_bar: Mapping[str, str]
    repository: Repository
    branch: str
    branches: Picker
    chain: tuple[str, ...]
    order: NewBuild
    total: int
    """Datasets that can be built."""
    stale: int
    """How many are stale and can be built together."""
    own: int | None
    """How many of these the branch makes stale by its code or data; None for a branch that changes none itself."""
    chosen: TargetsPart
    planned: PlanPart


@dataclass(frozen=True, slots=True)
class PlanFragment:
    """The plan alone, where something else is ticked."""

    repository: Repository
    branch: str
    order: NewBuild
    planned: PlanPart


@dataclass(frozen=True, slots=True)
class _Ground:
    """Where something is built."""

    repository: Repository
    branch: str
    chain: tuple[str, ...]


def read_new_build_page(principal: Principal, order: NewBuild) -> NewBuildPage:
    """Return what can be built on a branch and the plan of what is chosen, or why there is none."""
    ground = _read_ground(principal, order)
    seen = specs.list_seen(repository=ground.repository, branch=ground.branch)
    judged_specs = specs.load_seen(seen[:MAX_JUDGED])
    judged = specs.judge(branch_specs=judged_specs, chain=ground.chain)
    stale = specs.list_stale(judged, branch_specs=judged_specs)
    rebuilt = ports.list_rebuilt_by(ground.repository, ground.branch)
    own = specs.choose_own(stale, judged, rebuilt)
    proposed = stale if order.is_all else own
    ticked = proposed[:MAX_TARGETS] if order.targets is None else order.targets
    repository = ground.repository
    return NewBuildPage(
        nav="builds",
        repo_bar={"name": repository.name, "tab": "builds"},
        repository=repository,
        branch=ground.branch,
        branches=_link_branches(ground),
        chain=ground.chain,
        order=order,
        total=sum(len(spec.paths) for spec in seen),
        stale=len(stale),
        own=None if rebuilt is None else len(own),
        chosen=_choose(seen, ground, ticked, q=order.q, judged=judged, elsewhere=set(stale) - set(own)),
        planned=_plan(
            principal,
            ground,
            order,
            ticked,
            notes=_list_stale_notes(len(seen), proposed) if order.targets is None else (),
            is_fresh=all(verdict.state == "fresh" for verdict in judged.values()),
            elsewhere=len(stale) - len(own),
        ),
    )


def read_plan_fragment(principal: Principal, order: NewBuild) -> PlanFragment:
    """Return the plan of what is ticked; what else could be is not looked at."""
    ground = _read_ground(principal, order)
    planned = _plan(principal, ground, order, order.targets or ())
    return PlanFragment(repository=ground.repository, branch=ground.branch, order=order, planned=planned)


def read_targets(principal: Principal, order: NewBuild) -> TargetsPart:
    """Return the datasets to choose from that fit what is searched for, below those that are ticked."""
    ground = _read_ground(principal, order)
    seen = specs.list_seen(repository=ground.repository, branch=ground.branch)
    own = ports.list_rebuilt_by(ground.repository, ground.branch)
    paths = {path for spec in seen for path in spec.paths}
    return _choose(
        seen, ground, order.targets or (), q=order.q, judged={}, elsewhere=set() if own is None else paths - set(own)
    )


def list_branches(principal: Principal, order: NewBuild, *, q: str = "") -> Picker:
    """Return the branches to build on that have a text in their name."""
    return _link_branches(_read_ground(principal, order), q=q)


def _link_branches(ground: _Ground, *, q: str = "") -> Picker:
    name = ground.repository.name
    return list_branch_links(ground.repository, "/builds/new", current=ground.branch, q=q, repository=name)


def _read_ground(principal: Principal, order: NewBuild) -> _Ground:
    repository = _choose_repository(principal, order.repository)
    branch = order.branch or repository.default_branch
    names.check_branch_name(branch)
    return _Ground(repository, branch, chains.default_chain(repository=repository, branch=branch))


def _choose(
    seen: Sequence[SeenSpec],
    ground: _Ground,
    ticked: Iterable[str],
    *,
    q: str,
    judged: Mapping[str, FreshnessVerdict],
    elsewhere: Collection[str],
) -> TargetsPart:
    """Return what is ticked, then the first that fit, each with its state, which may be known already.

    What is stale and in `elsewhere` is apart from the others.
    """
    makers = {path: spec for spec in seen for path in spec.paths}
    chosen = sorted(set(ticked) & makers.keys())
    fitting = [path for spec in specs.search_seen(seen, q) for path in spec.paths if path not in chosen]
    shown = [*chosen, *sorted(fitting)[:MOST_CHOICES]]
    unknown = specs.load_seen({makers[path] for path in shown if path not in judged})
    verdicts = {**judged, **specs.judge(branch_specs=unknown, chain=ground.chain)}
    shown = [path for path in shown if path in verdicts]
    apart = [path for path in shown if path in elsewhere and verdicts[path].state == "stale"]
    return TargetsPart(
        outputs=tuple(_describe(path, verdicts[path], path in chosen) for path in shown if path not in apart),
        elsewhere=tuple(_describe(path, verdicts[path], path in chosen) for path in apart),
        others=max(0, len(fitting) - MOST_CHOICES),
        q=q,
    )


def _describe(path: str, verdict: FreshnessVerdict, is_ticked: bool) -> Mapping[str, Any]:
    return {"path": path, "is_ticked": is_ticked, **describe_verdict(verdict)}


def _plan(
    principal: Principal,
    ground: _Ground,
    order: NewBuild,
    ticked: Sequence[str],
    *,
    notes: Iterable[str] = (),
    is_fresh: bool = False,
    elsewhere: int = 0,
) -> PlanPart:
    below = (
        planning.list_below(ticked, ground.chain, repository=ground.repository) if order.downstream and ticked else ()
    )
    whole = BuildOrder(
        branch=ground.branch,
        targets=[*ticked, *sorted(below)],
        repository=ground.repository,
        upstream=order.upstream,
        force=order.force,
    )
    build = whole.make_build(chain=ground.chain)
    plan, problem, way_out = _make_plan(principal, build) if build.targets else (None, "", None)
    return PlanPart(
        order=whole,
        targets=tuple(ticked),
        more=len(below),
        is_fresh=is_fresh,
        elsewhere=elsewhere,
        plan=plan,
        rows=_describe_plan(plan) if plan else (),
        notes=(*_list_notes(build), *notes),
        problem=problem,
        way_out=way_out,
        refusal=permissions.find_start_problem(principal, plan) if plan else "",
    )


def _describe_plan(plan: BuildPlan) -> tuple[Mapping[str, Any], ...]:
    """Return the jobs of a plan as the page draws them."""
    return tuple(
        {
            "job": job,
            "inputs": [{"input": choice, "dataset": link_dataset(choice.path, choice.branch)} for choice in job.inputs],
            "outputs": [
                {"output": output, "dataset": link_dataset(output.path, output.branch)} for output in job.outputs
            ],
        }
        for job in plan.jobs
    )


def _list_notes(build: Build) -> Iterator[str]:
    yield from (head.note for head in chains.list_failed_heads(build=build))
    waits_for = chains.find_unpublished(build=build)
    if waits_for:
        yield f"The JobSpecs of {waits_for} are being published: the plan is made again when the build starts."


def _list_stale_notes(total: int, stale: Sequence[str]) -> Iterator[str]:
    if total > MAX_JUDGED:
        yield (
            f"What is stale was looked for among the first {MAX_JUDGED} of {total:,} JobSpecs by name: "
            "find others below Datasets."
        )
    if len(stale) > MAX_TARGETS:
        yield f"{len(stale):,} datasets are stale; a build takes {MAX_TARGETS} at most, and the first are ticked."


def _choose_repository(principal: Principal, name: str) -> Repository:
    if name:
        return repositories.get_repository(principal, name)
    first = repositories.list_repositories(principal).first()
    if first is None:
        raise NotFound("There is no repository that you may see: make one first.")
    return first


def _make_plan(principal: Principal, build: Build) -> tuple[BuildPlan | None, str, WayOut | None]:
    try:
        if len(build.targets) > MAX_TARGETS:
            message = f"A build has at most {MAX_TARGETS} targets, and these are {len(build.targets):,}."
            raise InvalidInput(message)
        permissions.check_inputs(principal, build.targets)
        plan = planning.make_plan(build=build, by=principal)
    except AppError as error:
        return None, error.detail, find_way_out(principal, error)
    return plan, "", None
