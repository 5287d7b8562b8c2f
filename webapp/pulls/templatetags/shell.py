"""What the frame of every page counts: the reader's inbox and the tabs of a repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import template

from webapp.pulls.queries import shell

register = template.Library()


@register.simple_tag(takes_context=True)
def inbox_count(context: Mapping[str, Any]) -> int:
    """Return how many things wait for the reader."""
    principal = getattr(context.get("request"), "principal", None)
    return shell.count_waiting(principal) if principal is not None else 0


@register.simple_tag(takes_context=True)
def repo_counts(context: Mapping[str, Any], name: str) -> Mapping[str, int]:
    """Return the counts beside the tabs of a repository."""
    principal = getattr(context.get("request"), "principal", None)
    return shell.count_repository(principal, name) if principal is not None else {}
