"""The JobSpecs that a branch sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from webapp.builds.models import PublishedSpec
from webapp.builds.pages.lineage import describe_verdict
from webapp.builds.pages.links import link_dataset, list_branch_links
from webapp.builds.queries import chains, specs
from webapp.builds.rules.freshness import FreshnessVerdict
from webapp.core.choices import Picker
from webapp.core.numbered import NumberedPage
from webapp.repositories import queries as repositories
from webapp.repositories.models import Publication, Repository

JOBSPECS_A_PAGE = 50


@dataclass(frozen=True, slots=True)
class JobSpecsPage:
    """The JobSpecs that a branch sees, and what came of publishing its head."""

    nav: str
    repo_bar: Mapping[str, str]
    repository: Repository
    branch: str
    branches: Picker
    chain: tuple[str, ...]
    specs: tuple[Mapping[str, Any], ...]
    """Of one page."""
    q: str
    total: int
    own: int
    text: str
    previous_url: str
    next_url: str
    publication: Publication | None
    head: str


def read_jobspecs_page(*, repository: Repository, branch: str, q: str, page: int) -> JobSpecsPage:
    """Return a page of the JobSpecs with these words in their names; who asks was let in by the view."""
    seen = specs.search_seen(specs.list_seen(repository=repository, branch=branch), q)
    part = NumberedPage.choose(page, size=JOBSPECS_A_PAGE, total=len(seen))
    published = specs.load_seen(seen[part.start : part.end])
    own_url = urlencode({"branch": branch, **({"q": q} if q else {})})

    def write(number: int) -> str:
        return f"?{own_url}&page={number}"

    head = chains.find_head_sha(repository=repository, branch=branch)
    chain = chains.default_chain(repository=repository, branch=branch)
    judged = specs.judge(branch_specs=published, chain=chain)
    depends_on = specs.describe_dependencies(published)
    return JobSpecsPage(
        nav="repositories",
        repo_bar={"name": repository.name, "tab": "files"},
        repository=repository,
        branch=branch,
        branches=list_branch_links(repository, f"/r/{repository.name}/jobspecs", current=branch),
        chain=chain,
        specs=tuple(_describe_spec(row, judged, depends_on[row.digest], branch=branch) for row in published),
        q=q,
        total=part.total,
        own=sum(spec.branch == branch for spec in seen),
        text=part.text,
        previous_url=part.link_previous(write),
        next_url=part.link_next(write),
        publication=repositories.get_publication(repository, branch, head) if head else None,
        head=head,
    )


def _describe_spec(
    row: PublishedSpec, verdicts: Mapping[str, FreshnessVerdict], depends_on: tuple[str, ...], *, branch: str
) -> dict[str, Any]:
    """Return a published JobSpec as the list draws it."""
    outputs, inputs = row.spec["outputs"], row.spec["inputs"]
    return {
        "spec": row,
        "size": row.spec.get("size", "small"),
        "description": row.spec.get("description", ""),
        **describe_verdict(verdicts[outputs[0]["path"]]),
        "is_own": row.branch == branch,
        "depends_on": depends_on,
        "why_all": row.spec.get("why_all", ""),
        "outputs": [link_dataset(output["path"], branch) for output in outputs],
        "inputs": [link_dataset(entry["path"], branch) for entry in inputs],
        "checks": sum(len(output.get("checks", ())) for output in outputs),
    }
