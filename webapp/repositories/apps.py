"""The app of Git repositories."""

from django.apps import AppConfig


class RepositoriesConfig(AppConfig):
    """Git repositories with branches, commits and protections."""

    name = "webapp.repositories"
    label = "repositories"
