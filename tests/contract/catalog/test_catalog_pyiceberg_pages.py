"""A real server, a real PyIceberg with the branch header, and what REST and the page then say: no part of it in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.types import StringType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.catalog.conftest import Server

pytestmark = pytest.mark.contract
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})


def ask(server: Server, route: str, **parameters: str) -> Any:
    url = f"http://127.0.0.1:{server.port}/api/v1{route}?{urlencode(parameters)}"
    with urlopen(Request(url, headers={"Authorization": f"Bearer {server.token}"}), timeout=60) as answer:
        return json.load(answer)


def test_rest_shows_on_each_branch_what_its_client_reads(
    server: Server, on: Callable[..., Any], namespace: str
) -> None:
    table = (namespace, "t")
    on().create_table(table, schema=ROWS.schema).append(ROWS)
    with on("p3-a").load_table(table).update_schema() as update:
        update.add_column("w", StringType())
    with on("p3-a").load_table(table).update_schema() as update:
        update.rename_column("w", "wide")
    with on("p3-x").load_table(table).update_schema() as update:
        update.delete_column("v")

    [dataset] = ask(server, "/datasets", path=f"/{namespace}/t")["results"]
    here = f"/datasets/{dataset['id']}"
    for branch, columns in {"p3-a": ["id", "v", "wide"], "p3-x": ["id"], "master": ["id", "v"]}.items():
        client = on(None if branch == "master" else branch).load_table(table)
        assert client.schema().column_names == columns
        for kind in ("schema", "preview"):
            assert [column["name"] for column in ask(server, f"{here}/{kind}", branch=branch)["columns"]] == columns
        assert ask(server, f"{here}/preview", branch=branch)["rows"] == client.scan().to_arrow().to_pylist()
    listed = ask(server, f"{here}/transactions", branch="p3-a")["results"]
    assert [(row["branch"], row["type"], row["changes"]) for row in listed] == [
        ("p3-a", "UPDATE", ["schema"]),
        ("p3-a", "UPDATE", ["schema"]),
        ("master", "APPEND", []),
    ]
    with pytest.raises(BadRequestError, match="write p3-a, not P3-A"):
        on("P3-A").load_table(table)
