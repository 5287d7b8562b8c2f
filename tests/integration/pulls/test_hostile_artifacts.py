"""Stored rows of a comparison that harm whoever decodes them, in front of a whole installation."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from tests.integration.pulls.conftest import Call
from tests.integration.pulls.test_compare import sign_in, wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.factories.builds import Stack

pytestmark = pytest.mark.integration
PATH = "/shop/forged"
CANARY = "canary-77aa"
GIANT = b"\xfe\xff\xff\xff\x0f"
"""2,147,483,647 bytes, as a page header says it."""
DECODERS = ("duckdb", "libarrow", "libparquet", "pyarrow")


@pytest.fixture(scope="module")
def compared(stack: Stack) -> list[str]:
    """The addresses of two comparisons of a dataset."""
    texts = ("id,word\n1,a\n", "id,word\n1,b\n2,c\n", f"id,word\n1,b\n2,{CANARY}\n")
    assert [stack.upload(PATH, text).status_code for text in texts] == [201] * 3
    dataset = stack.call("GET", f"/datasets?path={PATH}")["results"][0]["id"]
    third, second, first = [one["id"] for one in stack.call("GET", f"/datasets/{dataset}/transactions")["results"]]
    pairs = ((first, second), (second, third))
    return [f"/datasets/{dataset}/compare?from={before}&to={after}&keys=id" for before, after in pairs]


def _find_new_folder(stack: Stack, make: Callable[[], object]) -> Path:
    """The folder of the one comparison that is stored meanwhile."""
    before = set((stack.home / "diffs").glob("*/*"))
    make()
    [folder] = set((stack.home / "diffs").glob("*/*")) - before
    return folder


def truncate(rows: Path, _other: Path) -> None:
    rows.write_bytes(rows.read_bytes()[:-40])


def claim_a_giant_page(rows: Path, _other: Path) -> None:
    content = bytearray(rows.read_bytes())
    header = b"\x15\x00\x15" + GIANT + b"\x15" + GIANT
    content[4 : 4 + len(header)] = header
    rows.write_bytes(content)


def decode_to_gigabytes(rows: Path, _other: Path) -> None:
    table = pq.read_table(rows)
    places = pa.array([0] * len(table), pa.int32())
    text = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 300_000_000]))
    column = table.schema.get_field_index("a1")
    pq.write_table(table.set_column(column, "a1", text), rows, compression="zstd", store_schema=False)


def link(rows: Path, other: Path) -> None:
    rows.unlink()
    rows.symlink_to(other)


def fifo(rows: Path, _other: Path) -> None:
    rows.unlink()
    os.mkfifo(rows)


def folder(rows: Path, _other: Path) -> None:
    rows.unlink()
    rows.mkdir()


def test_hostile_rows_are_an_error_of_their_own_pages_alone(stack: Stack, ask: Call, compared: list[str]) -> None:
    hostile, healthy = compared
    mine = _find_new_folder(stack, lambda: wait(ask, "olek", hostile)) / "rows.parquet"
    other = _find_new_folder(stack, lambda: wait(ask, "olek", healthy)) / "rows.parquet"
    genuine = mine.read_bytes()
    site = stack.url.removesuffix("/api/v1")

    with requests.Session() as browser, ThreadPoolExecutor(6) as people:
        sign_in(browser, site, "olek")
        for harm in (truncate, claim_a_giant_page, decode_to_gigabytes, link, fifo, folder):
            harm(mine, other)
            sorted_ = f"{hostile}&sort=word"
            refused = [people.submit(ask, "olek", "GET", address, expect=409) for address in (hostile, sorted_)]
            shown = [people.submit(ask, "olek", "GET", healthy, expect=200) for _ in range(2)]
            assert {one.result()["code"] for one in refused} <= {"damaged", "too_large"}, harm.__name__
            assert [one.result()["rows"][0]["after"]["word"] for one in shown] == [CANARY] * 2
            page = browser.get(site + hostile, headers={"HX-Request": "true"}, timeout=60)
            assert "are damaged" in page.text or "cannot be shown" in page.text, harm.__name__
            assert CANARY not in page.text
            export: Any = ask("olek", "GET", hostile.replace("?", "/rows.csv?"), expect=409)
            assert export["code"] in {"damaged", "too_large"}, harm.__name__
            mine.rmdir() if mine.is_dir() else mine.unlink()
            mine.write_bytes(genuine)

    assert len(ask("olek", "GET", hostile, expect=200)["rows"]) == 2
    web = stack.parts["web"]
    assert web.poll() is None
    children = Path(f"/proc/{web.pid}/task/{web.pid}/children").read_text().split()
    for process in [str(web.pid), *children]:
        mapped = Path(f"/proc/{process}/maps").read_text()
        assert [name for name in DECODERS if name in mapped] == []
