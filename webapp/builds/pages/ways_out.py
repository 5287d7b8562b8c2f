"""The way out that pages offer where a dataset's branches do not fit the chain of a build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts.permissions import check_dataset
from webapp.builds.models import Build
from webapp.builds.queries import planning
from webapp.builds.rules.fallback import CHAIN_INCOMPATIBLE
from webapp.builds.rules.states import BuildState
from webapp.core.errors import AppError, find_refusal
from webapp.datasets import queries as datasets

if TYPE_CHECKING:
    from webapp.core.principals import Principal


@dataclass(frozen=True, slots=True)
class WayOut:
    """A branch of a dataset that fits the chain once it has another parent."""

    dataset_id: int
    path: str
    branch: str
    parent: str


def find_way_out(principal: Principal, error: AppError) -> WayOut | None:
    """Return the way out of a refused plan that the reader can take."""
    parent = error.extra.get("parent") if error.code == CHAIN_INCOMPATIBLE else None
    if parent is None:
        return None
    path, branch = error.extra["path"], error.extra["branches"][0]
    dataset = datasets.find_dataset(path)
    if dataset is None or find_refusal(check_dataset, principal, path, "write", branch):
        return None
    return WayOut(dataset.pk, path, branch, parent)


def find_way_out_of_build(principal: Principal, build: Build) -> WayOut | None:
    """Return the way out of a build that failed for its chain, as long as planning it still fails so."""
    if build.state != BuildState.FAILED or build.code != CHAIN_INCOMPATIBLE:
        return None
    try:
        planning.make_plan(build=build, by=principal)
    except AppError as error:
        return find_way_out(principal, error)
    return None
