"""What one thing of a great size costs: a table of many columns, a diff of many rows, a file of many bytes.

Pages show a part of it: so many bytes at most, and web keeps within its memory, whatever the size.
"""

from __future__ import annotations

import io
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from tests.factories.browsing import sign_in
from tests.factories.builds import PASSWORD, PIPELINE, Stack, running_stack
from tests.factories.crowds import measure_processor, read_peak_mib
from tests.factories.tiers import further

pytestmark = pytest.mark.integration
BRANCH = "large"
LONG, WIDE, FILE = "/shop/long", "/shop/wide", "notes/large.txt"
MOST_BYTES = 1_000_000
MOST_MIB = 1024
MOST_SECONDS = 3
"""Of the processor: how long one waits also says what else the machine does."""
FACTORS = (3, 7)
"""By which values are made, on master and on the branch."""
WIDE_ROWS = 300


@dataclass(frozen=True)
class Size:
    """How large each of them is."""

    columns: int
    rows: int
    """Of which every one changes."""
    file_bytes: int
    seconds: float
    """How long one job may take here."""


SMALL = Size(columns=120, rows=3_000, file_bytes=2 << 20, seconds=120)
FULL = Size(columns=1_000, rows=1_000_000, file_bytes=50 << 20, seconds=900)


@further("integration/pulls/test_growth.py::test_pages_ask_no_more_where_there_is_more_and_lose_nothing")
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(FULL, id="full", marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
    ],
)
def test_pages_of_one_large_thing_are_bounded(tmp_path: Path, size: Size) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with running_stack(home, TRIBUTARY_JOB_SECONDS=str(int(size.seconds))) as stack:
        pages = prepare(stack, tmp_path, size)
        host = f"http://127.0.0.1:{stack.port}"
        browser = sign_in(host, "admin", PASSWORD)
        asked = {name: ask(stack, browser, host + path) for name, path in pages.items()}
        for name, (answer, seconds) in asked.items():
            print(f"{name:24} {answer.status_code} {len(answer.content):>9,} bytes {seconds:5.2f} s of the processor")
        print(f"web held {read_peak_mib(stack.parts['web'].pid):.0f} MiB at most")
        assert {name: answer.status_code for name, (answer, _) in asked.items() if answer.status_code != 200} == {}
        longest = {name: len(answer.content) for name, (answer, _) in asked.items()}
        assert {name: length for name, length in longest.items() if length > MOST_BYTES} == {}
        assert read_peak_mib(stack.parts["web"].pid) <= MOST_MIB
        if size is FULL:
            assert {name: seconds for name, (_, seconds) in asked.items() if seconds > MOST_SECONDS} == {}


def ask(stack: Stack, browser: requests.Session, url: str) -> tuple[requests.Response, float]:
    """Open a page; its answer, and the time of the processor that web took for it."""
    answers: list[requests.Response] = []
    seconds = measure_processor(stack.parts["web"].pid, lambda: answers.append(browser.get(url, timeout=120)))
    return answers[0], seconds


def prepare(stack: Stack, folder: Path, size: Size) -> dict[str, str]:
    """Make what is large, on a branch that a pull request proposes; the addresses of its pages."""
    stack.make_repository()
    rules = f'{PIPELINE}\n[datasets."{LONG}"]\nkey = ["id"]\n\n[datasets."{WIDE}"]\nkey = ["id"]\n'
    stack.commit({"pipeline.toml": rules, "pipelines/__init__.py": ""})
    ids = {path: load_twice(stack, path, tables, size.seconds) for path, tables in make_tables(size).items()}
    push_file(stack, folder, size.file_bytes)
    body = {"title": "A large change", "source": BRANCH}
    pull = stack.call("POST", "/repositories/shop/pulls", json=body, expect=201)["number"]
    rows: list[dict[str, Any]] = []

    def is_compared() -> bool:
        rows[:] = stack.call("GET", f"/repositories/shop/pulls/{pull}/datasets")["results"]
        return len(rows) == len(ids) and all(row["rows"]["state"] in {"ready", "failed"} for row in rows)

    stack.wait(is_compared, seconds=size.seconds)
    assert {row["rows"]["state"] for row in rows} == {"ready"}, rows
    at, long, wide = f"/r/shop/pulls/{pull}", quote(LONG, safe=""), quote(WIDE, safe="")
    ends = f"tab=compare&from=master&to={BRANCH}&keys=id"
    pages = {
        "pull request": at,
        "its code": f"{at}/code",
        "its schemas": f"{at}/schema",
        "its data": f"{at}/data",
        "rows of many": f"{at}/data?dataset={long}",
        "updated rows of many": f"{at}/data?dataset={long}&change=updated",
        "found rows of many": f"{at}/data?dataset={long}&q=id%20%3E%20{size.rows // 2}",
        "sorted rows of many": f"{at}/data?dataset={long}&sort=-amount",
        "rows of wide": f"{at}/data?dataset={wide}",
        "all columns of wide": f"{at}/data?dataset={wide}&columns=all",
        "last columns of wide": f"{at}/data?dataset={wide}&columns=all&columns_page=1000",
        "statistics of wide": f"{at}/data?dataset={wide}&show=statistics",
        "last statistics of wide": f"{at}/data?dataset={wide}&show=statistics&columns_page=1000",
        "files": f"/r/shop/tree/{BRANCH}/notes",
        "a file": f"/r/shop/blob/{BRANCH}/{FILE}",
        "two refs": f"/r/shop/compare?base=master&head={BRANCH}",
        "a commit": f"/r/shop/commits/{BRANCH}",
    }
    for name, path in (("long", LONG), ("wide", WIDE)):
        pages |= {
            f"{name} dataset": f"/d{path}?branch={BRANCH}",
            f"sorted {name} dataset": f"/d{path}?branch={BRANCH}&sort=-id",
            f"schema of {name}": f"/d{path}?branch={BRANCH}&tab=schema",
            f"catalog of {name}": f"/d{path}?branch={BRANCH}&tab=catalog",
            f"branches of {name}": f"/d{path}?branch={BRANCH}&tab=branches",
            f"comparison of {name}": f"/datasets/{ids[path]}/compare?{ends}",
        }
    return pages


def make_tables(size: Size) -> dict[str, list[pa.Table]]:
    """Each table as it is on master and, with every row changed, on the branch."""
    ids = pa.array(range(size.rows), pa.int64())
    notes = pa.array(f"row {number} of many" for number in range(size.rows))
    long = [
        pa.table(
            {"id": ids, "amount": pa.array((number * factor for number in range(size.rows)), pa.int64()), "note": notes}
        )
        for factor in FACTORS
    ]
    wide = [
        pa.table(
            {"id": pa.array(range(WIDE_ROWS), pa.int64())}
            | {
                f"a_rather_long_name_{column:04}": [f"value {row * factor} of {column}" for row in range(WIDE_ROWS)]
                for column in range(size.columns - 1)
            }
        )
        for factor in FACTORS
    ]
    return {LONG: long, WIDE: wide}


def load_twice(stack: Stack, path: str, tables: list[pa.Table], seconds: float) -> int:
    """Upload a table to master and its changed rows to the branch; the number of the dataset."""
    for branch, table in zip(("master", BRANCH), tables, strict=True):
        content = io.BytesIO()
        pq.write_table(table, content)
        answer = stack.upload(path, content.getvalue(), name="file.parquet", branch=branch, mode="snapshot")
        assert answer.status_code in {201, 202}, answer.text
        if answer.status_code == 202:
            assert stack.wait_for_build(answer.json()["id"], seconds=seconds)["state"] == "COMPLETED"
    [dataset] = stack.call("GET", f"/datasets?path={path}")["results"]
    return int(dataset["id"])


def push_file(stack: Stack, folder: Path, size: int) -> None:
    """Push a file of about this size to the branch."""
    clone = folder / "clone"
    url = f"http://admin:{stack.token}@127.0.0.1:{stack.port}/git/shop.git"
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "clone", "-q", url, str(clone)], check=True)
    subprocess.run([*git, "checkout", "-q", "-b", BRANCH], cwd=clone, check=True)
    file = clone / FILE
    file.parent.mkdir()
    line = "one of very many lines that say the same %09d\n"
    file.write_text("".join(line % number for number in range(size // len(line % 0))))
    subprocess.run([*git, "add", "."], cwd=clone, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Add a large file"], cwd=clone, check=True)
    subprocess.run([*git, "push", "-q", "origin", BRANCH], cwd=clone, check=True)
