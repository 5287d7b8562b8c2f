"""What the pages share."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from webapp.accounts.permissions import signed_in
from webapp.accounts.services import note_reading
from webapp.core import pages
from webapp.repositories.services import FileDraft, find_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from webapp.core.errors import AppError
    from webapp.repositories.forms import EditForm


def shows_code(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Count each page of a view as a read of the code of its repository; a redirect shows none."""

    @functools.wraps(view)
    def counting(request: HttpRequest, repo: str, *args: Any, **kwargs: Any) -> HttpResponse:
        response = view(request, repo, *args, **kwargs)
        if not 300 <= response.status_code < 400:
            note_reading(by=signed_in(request), verb="read_code", object=repo)
        return response

    return counting


def show(
    request: HttpRequest, template: str, page: Any, *, fragment: str | None = None, status: int = 200, **extra: Any
) -> HttpResponse:
    """Render a page of a repository from its context."""
    fields = {field.name: getattr(page, field.name) for field in dataclasses.fields(page)}
    context = {**fields, "page": page, "repo_bar": page.frame.repo_bar, "nav": page.frame.nav, **extra}
    return pages.render(request, template, context, fragment=fragment, status=status)


def read_drafts(form: EditForm) -> list[FileDraft]:
    """Return the files beside the open one; of two that would lie in one place the later counts."""
    drafts = {fields["target"]: FileDraft(**fields) for fields in form.list_drafts() if fields["target"]}
    return list(drafts.values())


def read_open(form: EditForm) -> FileDraft:
    """Return the file that is open, as it was typed."""
    names = ("source", "path", "content")
    source, target, text = (str(form.data.get(name, "")).replace("\0", "") for name in names)
    return FileDraft(source, find_target(target, source=source), text)


def add_refusal(form: Form, error: AppError) -> None:
    """Show a refusal of a service on the field that it is about, else above the form."""
    errors: Any = error.errors
    if isinstance(errors, dict):
        fields = {name: problems for name, problems in errors.items() if name in form.fields}
        for name, problems in fields.items():
            form.add_error(name, [str(problem) for problem in problems])
        if fields:
            return
    form.add_error(None, error.detail)
