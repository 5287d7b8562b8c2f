"""Repositories in a folder, and running what imports them in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.engine.write.writer import write_table
from jobs.entrypoints.publish import publish
from jobs.entrypoints.run import run
from jobs.protocol import JobManifest, JobResult, OutputTarget, PinnedInput, PublishResult
from jobs.transforms.context import Connections
from tests.factories.forks import in_child
from tests.fakes.jobs_catalog import MemoryCatalog

HEAD = """
from transforms.api import transform, incremental, configure, Check
from transforms import expectations as E
from transforms.tables import TableInput, TableOutput, IcebergInput, IcebergOutput
"""


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a repository."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def publish_files(folder: Path, files: Mapping[str, str]) -> PublishResult:
    """Publish a repository with these files."""
    root = make_repository(folder, files)
    return in_child(lambda: publish(root))


class LocalJob:
    """Runs transforms against tables in memory, without sandbox and server."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "code"
        self.catalog = MemoryCatalog(folder / "warehouse")
        self.result_path = folder / "result.json"

    def write(self, path: str, data: pa.Table, *, is_append: bool = False) -> int:
        """Fill a dataset; return its snapshot."""

        def work() -> tuple[int, dict[Any, Any]]:
            table = self.catalog.load_table(table_of(path))
            written = write_table(table, data.schema, data.to_batches(), is_append=is_append)
            return written.snapshot_id, self.catalog.tables

        snapshot_id, self.catalog.tables = in_child(work)
        return snapshot_id

    def expire(self, path: str, snapshot_id: int | None = None) -> None:
        """Remove a snapshot from a dataset's metadata: the current one, which it still names as that, or another."""
        name = tuple(table_of(path).split("."))
        metadata = self.catalog.tables[name]
        gone = snapshot_id or metadata.current_snapshot_id
        kept = [each for each in metadata.snapshots if each.snapshot_id != gone]
        self.catalog.tables[name] = metadata.model_copy(update={"snapshots": kept})

    def read(self, path: str) -> pa.Table:
        """Read a dataset."""
        return in_child(lambda: self.catalog.load_table(table_of(path)).scan().to_arrow())

    def run(
        self,
        source: str,
        *,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
        function: str = "compute",
        since: Mapping[str, int] | None = None,
        profile: Any = "light",
        more: Mapping[str, Any] | None = None,
    ) -> JobResult:
        """Run one transform of one module; `more` are further facts of its manifest."""
        make_repository(self.root, {"pipelines/__init__.py": "", "pipelines/module.py": HEAD + source})
        manifest = JobManifest(
            job_id="job1",
            root=str(self.root),
            function=f"pipelines.module:{function}",
            catalog_uri="http://localhost/none",
            token="none",
            branch="_job/job1",
            build_branch="feature",
            inputs=tuple(self._pin(name, path, since) for name, path in inputs.items()),
            outputs=tuple(OutputTarget(name, path, table_of(path)) for name, path in outputs.items()),
            result_path=str(self.result_path),
            profile=profile,
            **{"is_incremental": since is not None, **(more or {})},
        )

        def work() -> tuple[JobResult, dict[Any, Any]]:
            return run(manifest, _Local(manifest, self.catalog)), self.catalog.tables

        result, self.catalog.tables = in_child(work)
        return result

    def _pin(self, name: str, path: str, since: Mapping[str, int] | None) -> PinnedInput:
        metadata = self.catalog.load_table(table_of(path)).metadata
        return PinnedInput(
            name,
            path,
            table_of(path),
            "master",
            "a61b08ffffff",
            metadata.current_snapshot_id,
            (since or {}).get(path),
        )


def table_of(path: str) -> str:
    """The table behind a dataset."""
    return path[1:].replace("/", ".")


class _Local(Connections):
    def __init__(self, manifest: JobManifest, catalog: MemoryCatalog) -> None:
        super().__init__(manifest)
        self.__dict__["catalog"] = catalog
