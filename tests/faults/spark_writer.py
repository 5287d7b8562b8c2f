"""A writer that is Spark: one session for the whole run, which meets every fault as users' sessions do."""

from __future__ import annotations

from typing import Any

from tests.factories.spark import QUICK, new_session, rest_catalog
from tests.faults.ledger import Outcome

NEVER_HAPPENED = ("CommitFailedException", "BadRequestException")
UNKNOWN = "CommitStateUnknownException"


class SparkWriter:
    """Appends rows by SQL, and reads the table back."""

    def __init__(self, uri: str, token: str, table: str) -> None:
        options = {**QUICK, **rest_catalog("live", uri, token), "spark.sql.catalog.live.cache-enabled": "false"}
        self._session: Any = new_session(options)
        self._table = f"live.{table}"
        self.count()

    def append(self, key: str) -> tuple[Outcome, str]:
        """Insert one row; what the session was told, and why where it was not done."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            self._session.sql(f"insert into {self._table} values ('{key}')").collect()
        except (PySparkException, Py4JError) as error:
            text = str(error)
            why = next(
                (name for name in (UNKNOWN, *NEVER_HAPPENED) if name in text), text.split("\n", maxsplit=1)[0][:100]
            )
            return ("refused" if why in NEVER_HAPPENED else "unknown"), why
        return "acknowledged", ""

    def count(self) -> int:
        """Return how many rows Spark sees."""
        rows: int = self._session.sql(f"select count(*) from {self._table}").collect()[0][0]
        return rows
