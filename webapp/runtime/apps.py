"""How an installation runs: its parts, their doors, and what they reach outside the database."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    """Supervisor, web server, Spark, broker, object store and health; knows no domain."""

    name = "webapp.runtime"
    label = "runtime"
