"""Routes of repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.urls import URLPattern, URLResolver

page_urls: list[URLPattern | URLResolver] = []
api_urls: list[URLPattern | URLResolver] = []
