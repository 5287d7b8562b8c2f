"""DuckDB's own client, unmodified, plays the guide's lines on a branch and on master."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from tests.contract.catalog.conftest import Server
from tests.factories.guide import ADDRESS, DUCKDB, SAID, Reader, list_blocks, read_chapter
from webapp.datasets.rules.snippets import write_snippets

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]


def test_the_lines_of_the_guide_read_and_write_a_branch_alone(server: Server) -> None:
    master = server.pyiceberg()
    master.create_namespace_if_not_exists("shop")
    rows = pa.table({"id": [1, 2, 3], "amount": [9.5, 3.0, 4.0]})
    master.create_table("shop.orders", schema=rows.schema).append(rows)
    [block] = [block for language, block in list_blocks(read_chapter("catalog", "DuckDB")) if language == "duckdb"]
    reader = Reader(server.uri.removesuffix("/iceberg"), TRIBUTARY_TOKEN=server.token)

    assert reader.run_duckdb(block.replace(ADDRESS, reader.address)) == SAID.findall(block) == ["3", "3", "2"]

    assert master.load_table("shop.orders").scan().to_arrow().sort_by("id") == rows
    branch = server.pyiceberg("feature/refunds")
    assert (
        branch.load_table("shop.orders").metadata.current_snapshot_id
        != master.load_table("shop.orders").metadata.current_snapshot_id
    )
    assert branch.load_table("shop.small_orders").scan().to_arrow().num_rows == 2
    without = re.sub(r",\s*EXTRA_HTTP_HEADERS MAP {.*?}", "", block).replace(ADDRESS, reader.address)
    assert reader.run_duckdb(without.replace("small_orders", "few_orders")) == ["3", "3", "2"]
    assert master.load_table("shop.few_orders").scan().to_arrow().num_rows == 2
    host = f"http://{reader.address}"
    [snippet] = [
        snippet.code
        for snippet in write_snippets(host=host, table="shop.orders", branch="feature/refunds")
        if snippet.id == "duckdb"
    ]
    install = 'duckdb.connect()\ndb.execute("INSTALL iceberg; LOAD iceberg")'
    assert install in snippet
    printed = reader.run_client(f"{DUCKDB}\n{snippet.replace(install, 'connect()')}")
    assert "9.5" in "".join(printed)
