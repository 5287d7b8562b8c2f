"""What makes a dataset, as its page says it below the name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.accounts.permissions import can_repository
from webapp.builds.models import PublishedOutput
from webapp.builds.queries import chains
from webapp.builds.queries.planning import rank_branches
from webapp.repositories.pages.frame import ref_url

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset


@dataclass(frozen=True, slots=True)
class DatasetMaker:
    """The JobSpec that makes a dataset on a branch, where the reader may see its code."""

    file: str
    url: str
    """Of the file at the JobSpec's line."""
    expectations: int
    """That the dataset has to meet before its transaction is committed."""


def describe_maker(*, principal: Principal, dataset: Dataset, branch: str) -> DatasetMaker | None:
    """Return what a build on a branch would make a dataset with; None where that is nothing, or not the reader's to see."""
    repository = chains.find_repository(paths=[dataset.path], branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    outputs = PublishedOutput.objects.filter(path=dataset.path, branch__in=chain).select_related("spec__repository")
    output = outputs.order_by(rank_branches(chain)).first()
    if output is None or not can_repository(principal, output.spec.repository.name, "read"):
        return None
    spec = output.spec
    declared = next(entry for entry in spec.spec["outputs"] if entry["path"] == dataset.path)
    return DatasetMaker(
        file=spec.file,
        url=f"{ref_url(spec.repository, 'blob', spec.branch, spec.file)}#L{spec.line}",
        expectations=len(declared.get("checks", ())),
    )
