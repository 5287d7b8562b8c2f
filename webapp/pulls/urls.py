"""Pages and endpoints of pull requests; the home page, search and the style guide, which need every app."""

from __future__ import annotations

from django.urls import URLPattern, path

from webapp.pulls.views import guide

page_urls: list[URLPattern] = [
    path("styleguide", guide.show_guide, name="styleguide"),
]
api_urls: list[URLPattern] = []
