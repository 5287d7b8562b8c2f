"""Links from what people write to what they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from django.urls import reverse

from webapp.pulls.queries.references import find_known
from webapp.pulls.rules.references import collect_references

if TYPE_CHECKING:
    from webapp.core.principals import Principal
    from webapp.pulls.queries.remarks import Remark
    from webapp.repositories.models import Repository


def link_references(principal: Principal, repository: Repository, texts: Iterable[str]) -> Mapping[str, str]:
    """Return the addresses of what the texts name and the reader may see, by how it is written."""
    references = find_known(principal, repository, collect_references(texts))
    name = repository.name
    return {
        **{f"#{number}": reverse("pull", args=[name, number]) for number in references.pulls},
        **{f"{word} {pk}": reverse("build", args=[pk]) for pk in references.builds for word in ("build", "Build")},
        **{path: reverse("dataset", args=[path.removeprefix("/")]) for path in references.paths},
        **{written: reverse("repository-commit", args=[name, sha]) for written, sha in references.shas.items()},
    }


def texts_of(remarks: Iterable[Remark]) -> list[str]:
    """Return what comments say, and their replies."""
    return [text for remark in remarks for text in (remark.body, *texts_of(remark.replies))]
