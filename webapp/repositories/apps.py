from django.apps import AppConfig


class RepositoriesConfig(AppConfig):
    name = "webapp.repositories"
    label = "repositories"
