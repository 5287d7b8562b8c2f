"""What the forms of a pull request answer: a refused one keeps the typed text, and shows what moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from django.contrib import messages
from django.shortcuts import redirect

from webapp.core import pages
from webapp.core.errors import AppError

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

TYPED = {"title": "Title", "body": "Text", "reason": "Reason", "message": "Commit message"}
"""Fields that users type, with their labels."""
MOVED = {
    "head": "expected_head",
    "target_head": "expected_target",
    "transaction": "expected_transaction",
    "before": "expected_before",
    "data": "expected_data",
    "version": "expected_version",
}
"""Member of a refusal → the field of a form that names it."""
NOT_REPEATED = frozenset({"csrfmiddlewaretoken", *TYPED, *MOVED.values()})


class TypedText(NamedTuple):
    """A text that was typed, with what is stored there now."""

    name: str
    label: str
    text: str
    now: str | None


def act(request: HttpRequest, action: Callable[[], str], *, repo: str, back: str) -> HttpResponse:
    """Do what a form asks for and return to the page; if it is refused, keep the text that was typed."""
    try:
        done = action()
    except AppError as error:
        return refuse(request, error, repo=repo, back=back)
    if done:
        messages.success(request, done)
    return redirect(back)


def refuse(request: HttpRequest, error: AppError, *, repo: str, back: str) -> HttpResponse:
    """Show a refused form again with what was typed; return to the page if nothing was."""
    current = error.extra.get("current") or {}
    typed = [
        TypedText(name, label, request.POST[name], current.get(name))
        for name, label in TYPED.items()
        if name in request.POST
    ]
    if error.status == 401 or not any(part.text.strip() for part in typed):
        return pages.refuse(request, error, back=back)
    sent = [(name, value) for name, values in request.POST.lists() for value in values if name not in NOT_REPEATED]
    moved = {field: error.extra[name] or "" for name, field in MOVED.items() if name in error.extra}
    expectations = {field: request.POST[field] for field in MOVED.values() if field in request.POST}
    context = {
        "nav": "pulls",
        "repo_bar": {"name": repo, "tab": "pulls"},
        "reason": pages.write_refusal(error),
        "is_moved": bool(moved),
        "typed": typed,
        "fields": [*sent, *(expectations | moved).items()],
        "post_url": request.path,
        "back": back,
    }
    return pages.render(request, "pulls/refused.html", context, status=error.status)
