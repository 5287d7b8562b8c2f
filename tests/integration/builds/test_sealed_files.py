"""Jobs that go for files: of master, of other transactions, and their own after they were committed. None gets anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.factories import fsck
from tests.factories.builds import HEAD, ROOT, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
VICTIM = "/shop/held/victim"
BRANCH = "attack"
PLACES = """
import os, pathlib
from urllib.parse import urlsplit
def local(location):
    return pathlib.Path(urlsplit(location).path)
table = out.load()
root = local(table.location())
own = local(table.properties["write.data.path"])
"""
UNLINK = f"""{PLACES}
refused = []
files = [path for path in root.glob("data/**/*") if path.is_file()]
folders = [root, root / "data", root / "metadata", *[path.parent for path in files]]
assert files
for act in (
    *[path.unlink for path in files],
    *[lambda path=path: path.write_bytes(b"") for path in files],
    *[lambda path=path: path.chmod(0o666) for path in files],
    *[lambda path=path: path.rename(path.with_name("gone")) for path in folders],
    *[lambda path=path: (path / "new").write_bytes(b"") for path in folders],
    *[lambda path=path: os.link(path, own / path.name) for path in files],
    *[lambda path=path: path.unlink() for path in root.glob("metadata/*.json")],
):
    try:
        act()
    except OSError as error:
        refused.append(error.strerror)
    else:
        print("GOT THROUGH")
print("refused", sorted(set(refused)))
files[0].unlink()
"""
FORGE = f"""{PLACES}
import pyarrow.parquet as pq
file = local(next(iter(table.scan().plan_files())).file.file_path)
forged = pq.read_table(file).to_pandas()
forged["b"] = "forged"
new = own / file.name
pq.write_table(pa.Table.from_pandas(forged), new)
new.rename(file)
"""
LOOK = """
import os
from urllib.parse import urlsplit

warehouse = urlsplit(out.load().location()).path.partition("/shop/held/")[0]
for folder, _, files in os.walk(warehouse):
    print("SEEN", folder.removeprefix(warehouse), len(files))
raise RuntimeError("looked")
"""
WRITE = "out.write_table(i0.arrow())"
LEFT = """
import socket
os.chdir(own)
path.rename("kept")
path.symlink_to("/etc/passwd")
os.mkfifo("pipe")
socket.socket(socket.AF_UNIX).bind("listener")
os.link("kept", "second")
(own / "deep").mkdir()
(own / "deep" / "link").symlink_to(own.parent, target_is_directory=True)
"""
CHANGED = {
    "not there as a plain file": "path.unlink()",
    "bytes long and not": "path.write_bytes(path.read_bytes() * 2)",
    "is damaged": "[p.write_bytes(b'no manifest') for p in local(table.properties['write.metadata.path']).glob('*-m0.avro')]",
}


def attack(name: str, body: str, output: str = VICTIM) -> str:
    return make_transform(name, inputs=["/shop/raw"], output=output, body=body)


@pytest.fixture(scope="module")
def held(stack: Stack) -> Iterator[Stack]:
    """An installation with rows of a victim on master, and a branch to attack them from."""
    stack.commit({"pipelines/held.py": HEAD + attack("victim", WRITE)})
    assert stack.build(VICTIM)["state"] == "COMPLETED"
    stack.call("POST", "/repositories/shop/branches", json={"name": BRANCH, "start_point": "master"}, expect=201)
    yield stack
    stack.call("DELETE", f"/repositories/shop/branches/{BRANCH}")


def run_attack(stack: Stack, body: str, output: str = VICTIM) -> tuple[dict[str, Any], str]:
    """Build on the branch what does harm; return its job and log. Whatever it did, master has the rows it had."""
    before = stack.rows(VICTIM)
    stack.commit({"pipelines/held.py": HEAD + attack("victim", body, output)}, branch=BRANCH)
    build = stack.build(output, branch=BRANCH, force=True)
    (job,) = build["jobs"]
    assert build["state"] == "FAILED", (build, stack.log(job["id"]))
    assert stack.rows(VICTIM) == before == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert stack.open_transactions() == []
    return job, stack.log(job["id"])


def test_files_of_master_are_out_of_reach_from_a_branch(held: Stack) -> None:
    job, log = run_attack(held, UNLINK)
    assert "GOT THROUGH" not in log
    assert "refused [" in log, log
    assert "Read-only file system" in job["reason"]


def test_a_job_sees_the_folders_of_its_tables_alone(held: Stack) -> None:
    assert held.upload("/shop/unread", "a\n1\n").status_code == 201
    job, log = run_attack(held, LOOK)
    assert "looked" in job["reason"]
    seen = {line.split()[-2] for line in log.splitlines() if "SEEN" in line}
    tables = {part for folder in seen for part in folder.split("/") if "-" in part and not part.startswith("job-")}
    assert {table.rpartition("-")[0] for table in tables} == {"raw", "victim"}


def test_a_file_of_master_is_not_exchanged_for_a_forged_one(held: Stack) -> None:
    job, _ = run_attack(held, FORGE)
    assert "Invalid cross-device link" in job["reason"] or "Read-only file system" in job["reason"]


def test_what_a_job_leaves_is_sealed_if_it_is_a_plain_file_and_fails_the_job_by_name_if_not(held: Stack) -> None:
    job, _ = run_attack(held, "\n".join([WRITE, PLACES, "path = next(own.glob('*.parquet'))", LEFT]))
    for what in ("a symbolic link", "a named pipe", "a socket", "(hard links)", "deep/link is a symbolic link"):
        assert what in job["reason"], job
    assert list(held.home.glob(f"warehouse/**/job-{job['id']}-*")) == [], "nothing of it is kept"


@pytest.mark.parametrize("what", CHANGED)
def test_what_a_job_has_changed_after_it_was_committed_is_not_published(held: Stack, what: str) -> None:
    job, _ = run_attack(held, "\n".join([WRITE, PLACES, "path = next(own.glob('*.parquet'))", CHANGED[what]]))
    assert what in job["reason"], job
    assert f"/job-{job['id']}-1/" in job["reason"]


@pytest.mark.damage("file_changed")
def test_a_file_that_is_changed_behind_the_catalog_is_found_by_fsck(held: Stack) -> None:
    # Other attacks have left files there that no table names.
    file = Path(urlsplit(next(iter(held.load(VICTIM).scan().plan_files())).file.file_path).path)
    raw = file.read_bytes()

    def look() -> list[str]:
        command = [sys.executable, "manage.py", "fsck", "sealed files", "--json", "--settle", "0"]
        done = subprocess.run(command, cwd=ROOT, env=held.environment, capture_output=True, text=True, check=False)
        (check,) = json.loads(done.stdout)["checks"]
        fsck.named.update(finding["code"] for finding in check["findings"])
        return [finding["problem"] for finding in check["findings"] if finding["object"] == str(file)]

    file.touch()  # as a restore does
    assert look() == []
    for content, problem in ((raw + b"1", "bytes and had"), (raw[:-1] + b"?", "not those that were written")):
        file.write_bytes(content)
        (found,) = look()
        assert problem in found
    file.write_bytes(raw)
    assert look() == []


COMMIT = """
from pyiceberg.manifest import DataFile
from jobs.engine.write.writer import _commit_files, _write_files
"""


def test_a_commit_names_no_file_of_another_transaction(held: Stack) -> None:
    """Not by its manifest, not by its manifest list, not by its snapshot."""
    found = held.call("GET", f"/datasets?path={VICTIM}")["results"][0]
    opened = held.call(
        "POST", f"/datasets/{found['id']}/transactions", json={"branch": "other", "type": "SNAPSHOT"}, expect=201
    )
    assert held.upload(VICTIM, "a,b\n7,secret\n", branch="other", transaction=opened["id"]).status_code == 201
    files = [path for path in held.home.glob("warehouse/shop/held/victim-*/data/job-*/*.parquet")]
    theirs = max(files, key=lambda path: path.stat().st_mtime)
    lists = held.home.glob("warehouse/shop/held/victim-*/metadata/job-*/snap-*.avro")
    their_list = max(lists, key=lambda path: path.stat().st_mtime)
    named = f"""{WRITE}{PLACES}{COMMIT}
(file,) = _write_files(table, iter(i0.arrow().to_batches()))
file._data[1] = "file://{theirs}"
assert file.file_path == "file://{theirs}"
_commit_files(table, [file], is_append=True, job_id="")
"""
    try:
        for body, why in (
            (named, "neither its own nor a file that the table had"),
            (
                f"""{PLACES}
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.snapshots import Operation, Summary
snapshot = Snapshot(snapshot_id=77, parent_snapshot_id=table.metadata.current_snapshot_id, sequence_number=1000,
    manifest_list="file://{their_list}", summary=Summary(Operation.APPEND), schema_id=table.metadata.current_schema_id)
with table.transaction() as act:
    act._apply((AddSnapshotUpdate(snapshot=snapshot), SetSnapshotRefUpdate(
        ref_name="main", type="branch", snapshot_id=77)), ())
""",
                "files of its own folder",
            ),
            (
                f"""{PLACES}
(theirs,) = [snap for snap in table.metadata.snapshots if snap.manifest_list.endswith("{their_list.name}")]
with table.transaction() as act:
    act._apply(*act._set_ref_snapshot(theirs.snapshot_id, "main", "branch"))
""",
                "no part of what it started from",
            ),
        ):
            held.commit({"pipelines/held.py": HEAD + attack("victim", body)}, branch=BRANCH)
            build = held.build(VICTIM, branch=BRANCH, force=True)
            (job,) = build["jobs"]
            assert build["state"] == "FAILED", (build, held.log(job["id"]))
            assert why in job["reason"], (job, held.log(job["id"]))
    finally:
        held.call("POST", f"/datasets/{found['id']}/transactions/{opened['id']}/abort")
    assert held.rows(VICTIM) == [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        ({"total-records": "999999"}, "999999 rows and 0 deletes where its manifests list 2 rows and 0 deletes"),
        (
            {"total-records": "2", "added-records": "7", "deleted-records": "7"},
            "7 added rows where its manifests list 0",
        ),
        ({}, "no total-records"),
    ],
)
def test_a_snapshot_that_counts_what_is_not_there_is_not_published(
    held: Stack, summary: dict[str, str], why: str
) -> None:
    """Pages show the summary of the newest snapshot."""
    job, _ = run_attack(
        held,
        f"""{WRITE}{PLACES}
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
table.refresh()
head = table.current_snapshot()
forged = Snapshot(snapshot_id=78, parent_snapshot_id=head.snapshot_id, sequence_number=head.sequence_number + 1,
    manifest_list=head.manifest_list, summary=Summary(Operation.APPEND, **{summary!r}), schema_id=head.schema_id)
with table.transaction() as act:
    act._apply((AddSnapshotUpdate(snapshot=forged), SetSnapshotRefUpdate(
        ref_name="main", type="branch", snapshot_id=78)), ())
""",
    )
    assert why in job["reason"], job
