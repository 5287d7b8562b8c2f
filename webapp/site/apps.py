"""The site: what needs every app and belongs to none."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """Home page, search, frame of every page, guide, style guide and demo."""

    name = "webapp.site"
    label = "site"
