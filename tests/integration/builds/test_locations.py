"""Tables that lie beside the warehouse, where a client has said, in all that an installation does with tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.factories.builds import HEAD, Stack, make_transform

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
ROWS = pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", "y"]})


def test_a_build_reads_and_writes_what_lies_beside_the_warehouse(stack: Stack) -> None:
    catalog = stack.connect()
    catalog.create_namespace("shop.beside")
    for name in ("source", "copy"):
        catalog.create_table(f"shop.beside.{name}", ROWS.schema, location=f"file:{stack.lake}/{name}")
    catalog.load_table("shop.beside.source").append(ROWS)
    transform = make_transform(
        "beside", inputs=["/shop/beside/source"], output="/shop/beside/copy", body="out.write_table(i0.arrow())"
    )
    stack.commit({"pipelines/beside.py": HEAD + transform})
    build = stack.build("/shop/beside/copy")
    assert build["state"] == "COMPLETED", stack.log(build["jobs"][0]["id"])
    assert stack.upload("/shop/beside/source", "a,b\n1,x\n3,z\n").status_code == 201
    assert stack.build("/shop/beside/copy")["state"] == "COMPLETED"
    assert stack.rows("/shop/beside/copy") == [{"a": 1, "b": "x"}, {"a": 3, "b": "z"}]
    assert {path.suffix for path in (stack.lake / "copy" / "data").rglob("*") if path.is_file()} == {".parquet"}
    assert list(stack.home.glob("warehouse/shop/beside/*")) == []
    (dataset,) = stack.call("GET", "/datasets?path=/shop/beside/copy")["results"]
    here = f"/datasets/{dataset['id']}"
    assert len(stack.call("GET", f"{here}/preview")["rows"]) == 2
    newest, oldest = stack.call("GET", f"{here}/transactions?branch=master")["results"]
    compared = f"{here}/compare?from={oldest['id']}&to={newest['id']}"
    stack.call("GET", compared)
    stack.wait(lambda: stack.call("GET", compared)["state"] == "ready", seconds=60)
    assert stack.call("GET", f"{here}/compare/statistics?from={oldest['id']}&to={newest['id']}")
