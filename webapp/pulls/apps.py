from django.apps import AppConfig


class PullsConfig(AppConfig):
    name = "webapp.pulls"
    label = "pulls"
