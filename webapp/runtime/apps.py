"""How an installation runs: its parts, their doors, and what they reach outside the database."""

from django.apps import AppConfig


class RuntimeConfig(AppConfig):
    """Supervisor, web server, Spark, broker, object store and health; knows no domain."""

    name = "webapp.runtime"
    label = "runtime"

    def ready(self) -> None:
        """Register the checks of settings."""
        from django.core.checks import Tags, register

        from webapp.runtime.checks import check_keys_are_narrow, check_spark_is_apart

        for check in (check_spark_is_apart, check_keys_are_narrow):
            register(check, Tags.security, deploy=True)
