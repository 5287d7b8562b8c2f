"""Files of tables that nothing refers to: planted, collected while everybody works, and looked for at the end by PyIceberg."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import ManifestEntryStatus

from tests.factories.builds import ROOT
from tests.factories.supervised import SupervisedStack

GRACES_S = (60.0, 900.0)
"""How old a file must at least be: longer than any writer of these runs is at work on one commit."""

YOUNGEST_S = 1.0
"""As old as a file must be where nobody writes."""


def collect_beside_writers(stack: SupervisedStack, dice: random.Random, table: str) -> None:
    """Collect by some grace while everybody works; an old file that nothing refers to goes."""
    grace = dice.uniform(*GRACES_S)
    planted = plant(connect(stack).load_table(table))
    long_ago = time.time() - grace - 60
    os.utime(planted, (long_ago, long_ago))
    said = collect(stack, grace)
    assert not planted.exists(), f"{planted} is older than {grace:.0f} s and still there: {said}"


def check_two_passes(stack: SupervisedStack) -> None:
    """Collect twice while nobody works: what is left is what the tables refer to, and all of that is there."""
    catalog = connect(stack)
    tables = [
        catalog.load_table(name) for namespace in catalog.list_namespaces() for name in catalog.list_tables(namespace)
    ]
    for table in tables:
        plant(table)
    time.sleep(2 * YOUNGEST_S)
    said = [collect(stack, YOUNGEST_S) for _ in range(2)]
    for table in tables:
        there = {path for path in folder_of(table).rglob("*") if path.is_file()}
        needed, mentioned = set(list_needed(table)), set(list_mentioned(table))
        assert needed <= there, f"{table.name()} has lost {needed - there}: {said}"
        assert there <= needed | mentioned, f"{table.name()} has kept {there - needed - mentioned}: {said}"


def plant(table: Any) -> Path:
    """Write a file that nothing refers to among the data of a table."""
    path = folder_of(table) / "data" / f"{uuid4().hex}.parquet"
    path.write_bytes(b"nobody's")
    return path


def collect(stack: SupervisedStack, grace: float) -> str:
    """Run the collector once over all tables; what it says."""
    command = [sys.executable, "manage.py", "collect_orphans", "--hours", str(grace / 3600)]
    result = subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def connect(stack: SupervisedStack) -> Catalog:
    """The catalog as it is on master."""
    uri = f"http://127.0.0.1:{stack.port}/iceberg"
    return load_catalog("leftovers", type="rest", uri=uri, token=stack.token)


def list_needed(table: Any) -> Iterator[Path]:
    """Return every file without which a snapshot or the table itself cannot be read."""
    yield as_path(table.metadata_location)
    for snapshot in table.metadata.snapshots:
        yield as_path(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            yield as_path(manifest.manifest_path)
            for entry in manifest.fetch_manifest_entry(table.io):
                yield as_path(entry.data_file.file_path)


def list_mentioned(table: Any) -> Iterator[Path]:
    """Return what may be there besides: earlier metadata, statistics, files that an entry says were removed."""
    yield from (as_path(entry.metadata_file) for entry in table.metadata.metadata_log)
    yield from (as_path(entry.statistics_path) for entry in table.metadata.statistics)
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                if entry.status == ManifestEntryStatus.DELETED:
                    yield as_path(entry.data_file.file_path)


def folder_of(table: Any) -> Path:
    """The folder of all of a table's files."""
    return as_path(table.location())


def as_path(location: str) -> Path:
    """The file of a location; Spark writes one slash where others write three."""
    return Path(location.removeprefix("file:").replace("///", "/", 1))
