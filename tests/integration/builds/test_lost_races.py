"""Many writers of one table at once: a commit that loses a race is repeated on the newest metadata, and no user sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tests.factories.builds import HEAD, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
WRITERS = 3


@contextmanager
def crowd(stack: Stack, path: str) -> Iterator[None]:
    """Commit to other branches of the table without a pause."""
    done = threading.Event()
    started = threading.Barrier(WRITERS + 1)

    def commit(table: Table) -> None:
        rows = pa.table({"a": pa.array([0], pa.int64())})
        table.append(rows)
        started.wait(60)
        while not done.is_set():
            try:
                table.append(rows)
            except CommitFailedException:
                table.refresh()

    tables = [stack.load(path, branch=f"crowd-{number}") for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(commit, table) for table in tables]
        try:
            started.wait(60)
            yield
        finally:
            done.set()
    for writer in writers:
        writer.result()


def test_uploads_into_branches_of_a_dataset_that_many_write(stack: Stack) -> None:
    path = "/shop/raced/uploads"
    assert stack.upload(path, "a\n0\n").status_code == 201

    def upload(number: int) -> str:
        """Its column is new, so that the schema races as well as the snapshot."""
        answer = stack.upload(path, f"a,c{number}\n{number},1\n", branch=f"raced-{number}", mode="append")
        return answer.text if answer.status_code != 201 else ""

    with crowd(stack, path), ThreadPoolExecutor(WRITERS) as pool:
        assert [*pool.map(upload, range(1, 1 + WRITERS))] == [""] * WRITERS
    for number in range(1, 1 + WRITERS):
        rows = stack.rows(path, branch=f"raced-{number}")
        assert sorted((row["a"], row[f"c{number}"] or 0) for row in rows) == [(0, 0), (number, 1)]
    assert stack.rows(path) == [{"a": 0}]


BODY = """
from pyiceberg.exceptions import CommitFailedException
shown = out.load().properties
print("retries", shown["commit.retry.num-retries"])
if shown["write.data.path"].endswith("-1"):
    raise CommitFailedException("Cannot add snapshot with sequence number 6 older than last sequence number 6")
out.write_table(pa.table({"a": [1]}))
"""


def test_a_job_that_lost_its_commit_runs_again(stack: Stack) -> None:
    """The first attempt fails as one does that lost every race; the table keeps nothing of what jobs are shown."""
    path = "/shop/raced/job"
    stack.commit({"pipelines/raced.py": HEAD + make_transform("raced", output=path, body=BODY)})
    build = stack.build(path)
    assert build["state"] == "COMPLETED", build
    (job,) = build["jobs"]
    assert job["attempt"] == 2
    assert "retries 1000" in stack.log(job["id"])
    assert "The catalog was busy or away for too long" in stack.log(job["id"])
    assert stack.rows(path) == [{"a": 1}]
    assert not [key for key in stack.load(path).properties if key.startswith("commit.retry.")]
