"""The watch button, on the pages of what can be watched, and lines of mails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import template
from django.utils.safestring import SafeString

from webapp.notices.queries import wishes

if TYPE_CHECKING:
    from webapp.datasets.models import Dataset
    from webapp.repositories.models import Repository

register = template.Library()


@register.simple_block_tag
def one_line(content: SafeString) -> SafeString:
    """Put what a block holds on one line: of a mail, or in its subject."""
    return SafeString(" ".join(content.split()))


@register.simple_tag(takes_context=True)
def is_watching(
    context: Mapping[str, Any], *, repository: Repository | None = None, dataset: Dataset | None = None
) -> bool:
    """Return whether the reader watches a repository or a dataset."""
    principal = getattr(context.get("request"), "principal", None)
    return principal is not None and wishes.is_watching(principal, repository=repository, dataset=dataset)
