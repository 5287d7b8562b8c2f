"""Links from what people write to what they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from webapp.pulls.queries.pulls import list_dataset_rows
from webapp.pulls.queries.references import find_known
from webapp.pulls.rules.references import collect_references

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.models import PullRequest
    from webapp.pulls.queries.remarks import Remark
    from webapp.repositories.models import Repository


def link_references(
    principal: Principal, repository: Repository, texts: Iterable[str], pull: PullRequest | None = None
) -> Mapping[str, str]:
    """Return the addresses of what the texts name and the reader may see, by how it is written.

    Rows are those of the datasets of a pull request, and are shown by it.
    """
    named = collect_references(texts)
    references = find_known(principal, repository, named)
    name = repository.name
    return {
        **(_link_rows(principal, pull, named.rows) if pull is not None and named.rows else {}),
        **{f"#{number}": reverse("pull", args=[name, number]) for number in references.pulls},
        **{f"{word} {pk}": reverse("build", args=[pk]) for pk in references.builds for word in ("build", "Build")},
        **{path: reverse("dataset", args=[path.removeprefix("/")]) for path in references.paths},
        **{written: reverse("repository-commit", args=[name, sha]) for written, sha in references.shas.items()},
    }


def _link_rows(principal: Principal, pull: PullRequest, rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    paths = set(list_dataset_rows(principal, pull).values_list("path", flat=True))
    url = reverse("pull-data", args=[pull.repository.name, pull.number])
    queries = {
        f"{path}[{key}]": urlencode({"dataset": path, "row": key}, safe="/") for path, key in rows if path in paths
    }
    return {written: f"{url}?{query}" for written, query in queries.items()}


def texts_of(remarks: Iterable[Remark]) -> list[str]:
    """Return what comments say, and their replies."""
    return [text for remark in remarks for text in (remark.body, *texts_of(remark.replies))]
