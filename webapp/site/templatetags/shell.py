"""What the frame of every page says: how much is unread, the tabs of a repository, that of a branch, the tour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template
from django.contrib.messages.storage.base import Message

from webapp.accounts.services import find_kept_form
from webapp.accounts.services.kept_forms import KeptForm
from webapp.core.undo import Undo, read_undo
from webapp.notices.queries.inbox import MOST_COUNTED, count_unread
from webapp.site.pages import shell, tour

register = template.Library()


@register.simple_tag(takes_context=True)
def part_in_place(context: Mapping[str, Any]) -> str:
    """Return the id of the part of the page that the answer takes the place of; empty where a whole page is asked for."""
    request = context.get("request")
    return request.htmx.target or "" if request is not None else ""


@register.simple_tag
def undo_of(message: Message) -> Undo | None:
    """Return what takes back the action that a message is about."""
    return read_undo(message)


@register.simple_tag(takes_context=True)
def inbox_count(context: Mapping[str, Any]) -> int:
    """Return how much of what the reader is told is unread."""
    principal = getattr(context.get("request"), "principal", None)
    return count_unread(principal) if principal is not None else 0


@register.simple_tag(takes_context=True)
def repo_counts(context: Mapping[str, Any], name: str) -> Mapping[str, int]:
    """Return the counts beside the tabs of a repository."""
    principal = getattr(context.get("request"), "principal", None)
    return shell.count_repository(name) if principal is not None else {}


@register.simple_tag(takes_context=True)
def tour_step(context: Mapping[str, Any]) -> tour.TourStep | None:
    """Return the step of the tour that the address asks for."""
    request = context.get("request")
    return tour.read_step(request.GET.get(tour.PARAMETER, "")) if request is not None else None


@register.simple_tag(takes_context=True)
def kept_form(context: Mapping[str, Any]) -> KeptForm | None:
    """Return the form that was not sent from this page, because its author's session had ended."""
    request = context.get("request")
    return find_kept_form(request) if request is not None else None


@register.simple_tag
def open_pull_number(repository: str, branch: str) -> int | None:
    """Return the newest open pull request of a branch."""
    return shell.find_open_pull(repository, branch)


@register.filter
def capped(number: int) -> int | str:
    """Return a number that was counted only so far, as 99+ where there may be more."""
    return number if number < MOST_COUNTED else f"{MOST_COUNTED - 1}+"
