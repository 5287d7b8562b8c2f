"""What a text will look like once it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webapp.core.errors import AppError
from webapp.pulls.pages.references import link_references
from webapp.pulls.queries import pulls as queries
from webapp.pulls.services.remarks import check_body

if TYPE_CHECKING:
    from webapp.core.principals import Principal


@dataclass(frozen=True)
class TextPreview:
    """A text, as its readers will see it."""

    body: str
    problem: str
    """Why it will not be taken."""
    references: Mapping[str, str]


def read_preview(principal: Principal, repository: str, number: int, parameters: Mapping[str, str]) -> TextPreview:
    """Return the text that somebody writes in a pull request, with its links as the writer sees them."""
    pull, body = queries.get_pull(principal, repository, number), parameters.get("body", "")
    try:
        check_body(body)
    except AppError as error:
        return TextPreview("", error.detail, {})
    return TextPreview(body, "", link_references(principal, pull.repository, [body], pull))
