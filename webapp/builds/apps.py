from django.apps import AppConfig


class BuildsConfig(AppConfig):
    name = "webapp.builds"
    label = "builds"
