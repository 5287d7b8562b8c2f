"""One Spark Connect server for all tests of executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.changelog import plan_changelog
from jobs.engine.listing import Listing
from jobs.engine.session import close_session, connect
from tests.factories.spark_connect import running_spark

Read = Callable[..., pa.Table]
_MODE = "SPARK_CONNECT_MODE_ENABLED"


@pytest.fixture(scope="session")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with it, for `connect_session` alone."""
    from webapp.core.spark_server import JAR_PATH

    if not JAR_PATH.exists():
        pytest.skip("Spark's Iceberg jar is not there: make setup fetches it")
    with running_spark(tmp_path_factory.mktemp("spark-connect")) as address:
        session = connect(address, job_id="tests", session_id=None)
        # other tests of this process use Spark without a server
        os.environ.pop(_MODE)
        # the rows are few and the plans long: compiling them would take most of the time
        for name in ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled"):
            session.conf.set(name, "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        session.conf.set("spark.sql.shuffle.partitions", "1")
        yield session
        close_session(session)


@pytest.fixture
def connect_session(connected: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session with it; Spark's functions make plans for a server while the test runs."""
    monkeypatch.setenv(_MODE, "1")
    return connected


@pytest.fixture
def read_by_spark(connect_session: Any, tmp_path: Path) -> Read:
    """What `read_changelog` does, computed by Spark, in the same Arrow types."""
    from jobs.changelog.spark import find_obstacle, spark_changelog

    def read(table: Any, **question: Any) -> pa.Table:
        plan = plan_changelog(table, **question)
        obstacle = find_obstacle(plan)
        assert not obstacle, obstacle
        listing = Listing(table, schema_id=plan.schema.id, folder=f"file://{tmp_path}/listing", io=table.io)
        found: pa.Table = spark_changelog(plan, connect_session, listing).toArrow()
        listing.remove()
        assert not list((tmp_path / "listing").iterdir())
        return found

    return read
