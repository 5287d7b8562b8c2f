"""Files of a table that were made to hang, to mislead or to swamp whoever opens them."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.factories.catalog import Catalog, table_path
from tests.integration.catalog.test_catalog_planning import TABLE, commit, data, plan
from webapp.catalog.models import Table
from webapp.catalog.services.collector import collect_table
from webapp.catalog.storage import metadata_files
from webapp.catalog.storage.local_files import local_path
from webapp.core import clock

pytestmark = [
    pytest.mark.integration,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("readers"),
    pytest.mark.timeout(60),
]


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, _: Path) -> None:
    path.mkdir()


def _link(path: Path, other: Path) -> None:
    path.symlink_to(other)


def _device(path: Path, _: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(path, 0o20666, os.makedev(1, 5))


TRAPS = [_fifo, _folder, _link, _device]


@pytest.fixture
def victim(catalog: Catalog) -> dict[str, Path]:
    """A table with one manifest; its files by what they are."""
    assert catalog.create_table(TABLE).status == 200
    made = commit(catalog, data("one"))
    loaded = catalog.load(TABLE)
    files = {
        "list": made["manifest-list"],
        "manifest": f"{loaded.metadata['location']}/metadata/{made['snapshot-id']}-0.avro",
        "metadata": loaded.body["metadata-location"],
    }
    return {kind: local_path(location) for kind, location in files.items()}


@pytest.mark.parametrize("kind", ["list", "manifest", "metadata"])
@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_in_the_place_of_a_file_is_an_answer_and_keeps_nobody_waiting(
    catalog: Catalog, victim: dict[str, Path], tmp_path: Path, kind: str, trap: Callable[[Path, Path], Any]
) -> None:
    path = victim[kind]
    other = tmp_path / "others"
    other.write_bytes(path.read_bytes())  # it would be readable, if it were followed
    path.unlink()
    trap(path, other)
    metadata_files.forget_all()
    answer = catalog.call("GET", table_path(TABLE)) if kind == "metadata" else plan(catalog)
    assert answer.status in (400, 503), answer.body
    assert path.name in str(answer.body)
    collected = collect_table(Table.objects.get(), older_than=clock.now() + timedelta(days=1), remove=False)
    assert collected.problem
    assert collected.locations == ()
