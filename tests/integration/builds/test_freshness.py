"""What counts as up to date, on a real installation: files that jobs use, and transforms that are found by their outputs."""

from __future__ import annotations

import pytest

from tests.factories.builds import HEAD, Stack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
READS_FILES = """
import pathlib
import polars as pl

@transform.using(out=TableOutput("/shop/fresh/conf"))
def conf(out):
    weight = int(pathlib.Path("conf/weight.txt").read_text())
    prices = pl.read_csv("conf/prices.csv")
    out.write_polars(prices.with_columns(weight=pl.lit(weight)))

@transform.using(out=TableOutput("/shop/fresh/other"))
def other(out):
    out.write_table(pa.table({"a": [1]}))
"""
LOOP = """
def make(name):
    @transform.using(out=TableOutput(f"/shop/loop/{name}"))
    def made(out):
        out.write_table(pa.table({"name": [name]}))

for name in {"ant", "bee", "cat", "dog", "eel", "fox"}:
    make(name)
"""


def test_files_that_a_job_reads_make_it_run_again(stack: Stack) -> None:
    files = {"pipelines/fresh.py": HEAD + READS_FILES, "conf/weight.txt": "1", "conf/prices.csv": "price\n5\n"}
    assert stack.commit(files)["published"]["status"] == "published"
    targets = ("/shop/fresh/conf", "/shop/fresh/other")
    assert stack.build(*targets)["state"] == "COMPLETED"
    specs = {spec["function"]: spec for spec in stack.call("GET", "/repositories/shop/jobspecs?limit=100")["results"]}
    depends_on = specs["pipelines.fresh:conf"]["depends_on"]
    assert {"pipelines/fresh.py", "conf/weight.txt", "conf/prices.csv"} <= set(depends_on)
    assert ".pyiceberg.yaml" not in depends_on
    assert "conf/prices.csv" not in specs["pipelines.fresh:other"]["depends_on"]
    assert [job["skipped"] for job in stack.build(*targets)["jobs"]] == [True, True]

    for path, text, column in (("conf/prices.csv", "price\n7\n", "price"), ("conf/weight.txt", "3", "weight")):
        stack.commit({path: text})
        build = stack.build(*targets)
        jobs = {job["outputs"][0]["path"]: job for job in build["jobs"]}
        assert (jobs["/shop/fresh/conf"]["skipped"], jobs["/shop/fresh/other"]["skipped"]) == (False, True)
        assert jobs["/shop/fresh/conf"]["why"].endswith(f": {path}")
        assert stack.rows("/shop/fresh/conf")[0][column] == int(text.split()[-1])

    stack.call("POST", "/repositories/shop/branches", json={"name": "prices", "start_point": "master"}, expect=201)
    stack.commit({"conf/prices.csv": "price\n9\n"}, branch="prices")
    pull = stack.call("POST", "/repositories/shop/pulls", json={"title": "Prices", "source": "prices"}, expect=201)
    datasets = f"/repositories/shop/pulls/{pull['number']}/datasets"
    stack.wait(lambda: stack.call("GET", datasets)["results"] != [], seconds=30)
    (dataset,) = stack.call("GET", datasets)["results"]
    assert (dataset["path"], dataset["change"], dataset["current"]) == ("/shop/fresh/conf", "modified", False)
    assert dataset["changed_files"] == ["conf/prices.csv"]


def test_transforms_of_a_loop_over_a_set_write_their_own_tables(stack: Stack) -> None:
    stack.commit({"pipelines/loop.py": HEAD + LOOP})
    names = ("ant", "bee", "cat", "dog", "eel", "fox")
    build = stack.build(*(f"/shop/loop/{name}" for name in names))
    assert build["state"] == "COMPLETED", build
    assert [stack.rows(f"/shop/loop/{name}") for name in names] == [[{"name": name}] for name in names]


def test_a_factory_of_another_module_declares_transforms(stack: Stack) -> None:
    factory = """
def make(name):
    @transform.using(out=TableOutput(f"/shop/factory/{name}"))
    def made(out):
        out.write_table(pa.table({"name": [name]}))
"""
    published = stack.commit(
        {
            "pipelines/factory.py": HEAD + factory,
            "pipelines/uses_factory.py": "from pipelines.factory import make\n\nmake('a')\n",
            "pipelines/inner/__init__.py": "from . import helper\nfrom .helper import VALUE\n",
            "pipelines/inner/helper.py": "from . import other\nVALUE = other.VALUE\n",
            "pipelines/inner/other.py": "VALUE = 1\n",
        }
    )
    assert published["published"]["status"] == "published", published
    assert stack.build("/shop/factory/a")["state"] == "COMPLETED"
    assert stack.rows("/shop/factory/a") == [{"name": "a"}]
