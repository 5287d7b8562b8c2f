"""What a running transform knows: its connections, and `ctx`."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.table import Table

from jobs.engine.read.catalog import JobCatalog, open_catalog
from jobs.protocol import JobManifest, Progress, write_message
from jobs.transforms.errors import TransformError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from jobs.changelog import ChangelogPlan
    from jobs.changelog.keys import Key
    from jobs.engine.read.listing import Listing


def say(line: str) -> None:
    """Write one line of the job's log."""
    print(re.sub(r"[\r\n]+", " ", line), flush=True)


class Connections:
    """The catalog as the job's token shows it, and Spark where the transform declared it; both opened when needed."""

    def __init__(self, manifest: JobManifest) -> None:
        self.manifest = manifest
        self._spark: SparkSession | None = None
        self._listings: list[Listing] = []
        self.read_keys: list[Sequence[Key] | None] = []
        """The keys of each changelog that the transform has read; None for net changes."""

    @cached_property
    def catalog(self) -> JobCatalog:
        """The catalog on the job's staging branch."""
        manifest = self.manifest
        return open_catalog(
            uri=manifest.catalog_uri, token=manifest.token, branch=manifest.branch, endpoints=manifest.endpoints
        )

    def load(self, table: str, path: str) -> Table:
        """Load one table; refusals name the dataset."""
        prepared = self.manifest.prepared.get(table)
        if prepared is not None:
            return self.catalog.open_prepared(table, Path(prepared).read_bytes())
        try:
            return self.catalog.load_table(table)
        except NoSuchTableError as error:
            raise TransformError(f"{path} does not exist on branch {self.manifest.build_branch}") from error
        except ForbiddenError as error:
            raise TransformError(f"the job may not use {path}: {error}") from error

    @property
    def spark(self) -> SparkSession:
        """The job's Spark session."""
        if self._spark is None:
            from jobs.engine.spark.session import open_session

            if self.manifest.profile != "spark":
                raise TransformError(
                    "this transform has no Spark: declare it with @transform.spark.using, or use arrow(), "
                    "changelog_arrow() and write_table()"
                )
            self._spark = open_session(self.manifest, say, lambda done, total: self.report(done, total, "tasks"))
        return self._spark

    def explain_python_memory(self) -> str:
        """Say that a Python function beside Spark wanted more memory than it may have, and how much that is."""
        from jobs.engine.spark.session import find_python_memory

        limit = find_python_memory(self.spark)
        return (
            f"out of memory: a Python function that Spark called wanted more than the {limit} that each process of "
            "Python functions may map: let it take fewer rows at a time"
        )

    def open_listing(self, plan: ChangelogPlan) -> Listing:
        """Begin a list of files for Spark to read, beside an output's metadata or in the folder that both see."""
        from jobs.engine.read.listing import Listing

        folder = self.manifest.spark_folder
        if not folder:
            target = self.manifest.outputs[0]
            folder = self.load(target.table, target.path).properties["write.metadata.path"]
        listing = Listing(plan.table, schema_id=plan.schema.id, folder=folder, io=plan.table.io)
        self._listings.append(listing)
        return listing

    def report(self, done: int, total: int, unit: Literal["rows", "tasks"]) -> None:
        """Leave word of how far the job is."""
        write_message(Path(self.manifest.result_path).with_name(Progress.FILE), Progress(done, total, unit))

    def close(self) -> None:
        """End the Spark session, running queries included, and remove what it alone read."""
        if self._spark is not None:
            from jobs.engine.spark.session import close_session

            close_session(self._spark)
            self._spark = None
        while self._listings:
            self._listings.pop().remove()


class TransformContext:
    """`ctx`: what a transform may ask about its build."""

    def __init__(self, connections: Connections, *, is_incremental: bool) -> None:
        self._connections = connections
        self.is_incremental = is_incremental
        """Whether this build continues the last one; see `transforms.api.incremental`."""

    @property
    def branch(self) -> str:
        """The branch that is built."""
        return self._connections.manifest.build_branch

    @property
    def job_id(self) -> str:
        """The number of the job."""
        return self._connections.manifest.job_id

    @property
    def spark(self) -> Any:
        """The Spark session; only in transforms declared with `@transform.spark.using`."""
        return self._connections.spark

    @property
    def spark_session(self) -> Any:
        """The same as `spark`."""
        return self.spark
