"""The Spark server of jobs, for tests that end before it has computed much."""

from __future__ import annotations

from tests.factories.spark import QUICK_JAVA
from webapp.runtime.spark_server import SparkServer


class QuickSparkServer(SparkServer):
    """Its Java machine compiles little: a third of what it takes of the processor would be for later."""

    @property
    def environment(self) -> dict[str, str]:
        """That of every server, and options of its Java machine."""
        return {**super().environment, "JDK_JAVA_OPTIONS": QUICK_JAVA}
