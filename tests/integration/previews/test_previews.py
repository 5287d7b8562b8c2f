"""Uncommitted code run over samples: what it writes, what differs from the committed code, and what it cannot reach."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.factories import datasets, repositories
from tests.factories.everything import World, make_world
from tests.factories.pages import read_page
from webapp.accounts.models import AuditEntry
from webapp.builds.services import publication
from webapp.catalog.models import Table
from webapp.core import clock
from webapp.datasets.models import Dataset, Transaction
from webapp.previews import queries, services
from webapp.previews.models import CodePreview
from webapp.previews.rules.states import PreviewState
from webapp.repositories import queries as repository_queries
from webapp.repositories.models import Publication, Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
API = "/api/v1/repositories/shop/previews"
FILE = "pipelines/clean.py"
HEAD = """\
from datetime import datetime
import polars as pl
from transforms.api import transform
from transforms.tables import TableInput, TableOutput


"""
CLEAN = (
    HEAD
    + """\
@transform.using(raw=TableInput("/shop/raw"), clean=TableOutput("/shop/cleaned"))
def clean(raw, clean):
    rows = raw.polars().unique(maintain_order=True)
    clean.write_polars(rows.select("id", "amount", at=pl.lit(datetime.now())))
"""
)
PIPELINE = '[pipeline]\nfolders = ["/shop"]\n[datasets."/shop/cleaned"]\nkey = ["id"]\nignore = ["at"]\n'


@pytest.fixture
def world(readers: Path) -> World:
    """One of everything, and a published transform on the branch `fix`."""
    world = make_world()
    commit(world, {"pipeline.toml": PIPELINE, "pipelines/__init__.py": "", FILE: CLEAN})
    return world


def commit(world: World, files: dict[str, str | None], branch: str = "fix") -> None:
    """Commit files and publish what they declare."""
    shop = Repository.objects.get(name="shop")
    sha = repositories.a_commit(shop, files, branch=branch).sha
    publication.publish(repository=shop, branch=branch, sha=sha)
    assert Publication.objects.get(repository=shop, branch=branch, sha=sha).errors == []


def ask(world: World, text: str, role: str = "writer", *, file: str = FILE, **files: str) -> Any:
    """Ask for a preview of a file as somebody."""
    changed = [{"path": file, "text": text}, *({"path": path, "text": more} for path, more in files.items())]
    body = {"branch": "fix", "file": file, "files": changed}
    return Client().post(API, body, "application/json", headers=world.bearer(role, ""))


def run(world: World, text: str, role: str = "writer", **more: Any) -> CodePreview:
    """Ask for a preview and run it here, in the sandbox."""
    answer = ask(world, text, role, **more)
    assert answer.status_code == 202, answer.content
    services.run_preview(preview_id=answer.json()["id"])
    return CodePreview.objects.get(pk=answer.json()["id"])


def read(world: World, preview: CodePreview, address: str = "", role: str = "writer") -> Any:
    answer = Client().get(f"{API}/{preview.pk}{address}", headers=world.bearer(role, ""))
    return answer.json() if answer.status_code == 200 else answer.status_code


def read_log(world: World, preview: CodePreview) -> str:
    return "\n".join(read(world, preview, "/log")["lines"])


def test_rows_schema_and_difference_of_a_changed_transform(world: World) -> None:
    before = (Table.objects.count(), Dataset.objects.count(), Transaction.objects.count())
    head = repository_queries.get_head(Repository.objects.get(name="shop"), "fix")
    preview = run(world, CLEAN.replace('"amount"', 'pl.col("amount") * 2, "name"'))
    assert (preview.state, preview.error) == (PreviewState.READY, "")
    answer = read(world, preview)
    [output] = answer["outputs"]
    assert (output["path"], output["rows"], output["is_cut"]) == ("/shop/cleaned", 2, False)
    assert [field["name"] for field in output["schema"]["fields"]] == ["id", "amount", "name", "at"]
    assert [row[:3] for row in read(world, preview, "/rows")["rows"]] == [[1, 3.0, "a"], [2, -0.0, None]]
    [source] = answer["inputs"]
    assert (source["path"], source["branch"], source["rows"], source["is_whole"]) == ("/shop/raw", "fix", 4, True)
    difference = read(world, preview, "/difference")
    assert (difference["key"], difference["only_after"], difference["updated"]) == ("id", ["name"], 1)
    assert difference["ignored"] == ["at"]
    assert difference["rows"] == [{"change": "updated", "copies": 1, "before": [1, 1.5], "after": [1, 3.0]}]
    assert "wrote 2 rows to /shop/cleaned in this preview" in read_log(world, preview)
    assert before == (Table.objects.count(), Dataset.objects.count(), Transaction.objects.count())
    assert repository_queries.get_head(Repository.objects.get(name="shop"), "fix") == head
    entry = AuditEntry.objects.get(verb="preview_code")
    assert (entry.actor, entry.object, entry.detail["file"]) == ("a-writer", "shop", FILE)
    page = open_page(world, preview)
    assert "<td>a</td>" in page
    assert "It read all rows of its inputs" in page
    assert "rows matched by<code>id</code>" in page
    assert "has nothing of /shop/cleaned yet" in page
    assert f"/r/shop/preview/fix/{FILE}" in page  # the editor goes on


def open_page(world: World, preview: CodePreview, role: str = "writer", query: str = "", **headers: str) -> str:
    """Return the page of a preview as somebody sees it."""
    browser = Client()
    browser.force_login(world.users[role])
    answer = browser.get(f"/r/shop/previews/{preview.pk}{query}", headers=headers)
    assert answer.status_code == 200, answer.content
    return str(read_page(answer))


def test_the_form_of_the_editor_is_run_with_the_files_it_carries(world: World) -> None:
    browser = Client()
    browser.force_login(world.users["writer"])
    head = repository_queries.get_head(Repository.objects.get(name="shop"), "fix")
    text = CLEAN.replace("from transforms.api", "from pipelines.words import KEPT\nfrom transforms.api")
    form = {
        "source": FILE, "path": FILE, "content": text.replace('"id", "amount"', "*KEPT"), "head": head, "message": "Mine",
        "draft-path-1": "", "draft-target-1": "pipelines/words.py", "draft-text-1": 'KEPT = ["name", "id"]\r\n',
    }  # fmt: skip
    answer = browser.post(f"/r/shop/preview/fix/{FILE}", form)
    preview = CodePreview.objects.latest("pk")
    assert answer.headers["Location"] == f"/r/shop/previews/{preview.pk}"
    waiting = read_page(browser.get(f"/r/shop/previews/{preview.pk}"))
    assert "Waiting for a worker" in waiting
    assert 'hx-trigger="every 1s"' in waiting
    services.run_preview(preview_id=preview.pk)
    page = open_page(world, preview)
    assert "from pipelines.words import KEPT" in page
    assert re.search(r"<th scope=\"col\">\s*name", page)
    assert 'value="Mine"' in page
    assert 'name="draft-target-1" value="pipelines/words.py"' in page
    part = open_page(world, preview, **{"HX-Request": "true"})
    assert part.lstrip().startswith("<section")
    assert "hx-trigger" not in part
    refused = browser.post("/r/shop/preview/fix/notes.md", {**form, "source": "notes.md", "path": "notes.md"})
    assert refused.status_code == 422
    assert "A preview runs the transforms of a file of Python" in read_page(refused)
    assert "from pipelines.words import KEPT" in read_page(refused)  # what was typed stays


MISTAKES = [
    (CLEAN.replace('"amount"', '"amont"'), "transform_failed", 10, "amont"),
    (CLEAN.replace("def clean(raw", "def clean(rwa"), "not_published", 7, "parameter"),
    ("import nothing_of_that_name\n" + CLEAN, "not_published", 1, "nothing_of_that_name"),
    (CLEAN.replace("/shop/raw", "/shop/nothing"), "unknown_table", 0, "/shop/nothing"),
    ("X = 1\n", "no_transform", 0, "declares no transform"),
    (CLEAN.replace("transform.using", "transform.spark.using"), "spark", 0, "It runs on Spark"),
    (CLEAN.replace("    rows = ", "    raw.changelog_arrow()\n    rows = "), "transform_failed", 9, "not its history"),
]


def test_what_is_wrong_is_said_at_its_line(world: World) -> None:
    for text, code, line, words in MISTAKES:
        preview = run(world, text)
        assert (preview.state, preview.code) == (PreviewState.FAILED, code), preview.error
        problems = preview.summary.get("problems", [])
        assert [(problem["file"], problem["line"]) for problem in problems] == ([(FILE, line)] if line else [])
        assert words in f"{preview.error} {problems}"
        page = open_page(world, preview)
        assert words in page
        assert (f"&quot;line&quot;: {line}" in page) == bool(line)
        assert read(world, preview, "/rows") == 409
    answer = ask(world, CLEAN, file="../pipelines/clean.py")
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_change")
    assert ask(world, "X", **{f"pipelines/{number}.py": "X" for number in range(31)}).status_code == 422
    assert ask(world, CLEAN, role="reader").status_code == 403


TWO = (
    CLEAN
    + """

@transform.using(raw=TableInput("/shop/raw"), names=TableOutput("/shop/names"), ids=TableOutput("/shop/ids"))
def split(raw, names, ids, ctx):
    rows = raw.arrow(columns=["id", "name"], filter="id > 1")
    names.write_table(rows.select(["name"]))
    ids.set_mode("append")
    for batch in raw.batches(columns=["id"]):
        ids.write_table(batch)
    print(ctx.branch, raw.schema.names, raw.pandas().shape)


@transform.spark.using(raw=TableInput("/shop/raw"), big=TableOutput("/shop/big"))
def heavy(raw, big):
    pass
"""
)


def test_every_output_can_be_chosen_and_spark_is_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SAMPLE_ROWS", 3)
    monkeypatch.setattr(services, "OUTPUT_ROWS", 2)
    preview = run(world, TWO)
    assert preview.state == PreviewState.READY, preview.error
    answer = read(world, preview)
    rows = {output["path"]: (output["rows"], output["is_cut"]) for output in answer["outputs"]}
    assert rows == {"/shop/cleaned": (2, False), "/shop/names": (1, False), "/shop/ids": (2, True)}
    assert [skipped["function"] for skipped in answer["skipped"]] == ["pipelines.clean:heavy"]
    assert answer["inputs"][0]["is_whole"] is False
    assert read(world, preview, "/rows?output=/shop/names")["rows"] == [[None]]
    assert read(world, preview, "/rows?output=/shop/nothing") == 404
    assert read(world, preview, "/difference?output=/shop/ids") == 409
    assert read(world, preview, "/difference?output=/shop/cleaned")["state"] == "equal"
    assert "fix ['id', 'name', 'amount', 'tags'] (3, 4)" in read_log(world, preview)
    page = open_page(world, preview, query="?output=/shop/ids")
    assert "The committed code of this branch does not make this dataset." in page
    assert "Counts, sums and joins are of these rows alone" in page
    assert "<code>pipelines.clean:heavy</code>was not run." in page


PROBES = """\
import json, os, pathlib, socket, urllib.request

import polars as pl

from transforms.api import transform
from transforms.tables import TableInput, TableOutput


def probe(act):
    try:
        return repr(act())[:200]
    except BaseException as error:
        return "refused: " + type(error).__name__


@transform.using(raw=TableInput("/shop/raw"), out=TableOutput("/shop/cleaned"))
def clean(raw, out):
    rows = raw.polars()
    sample = pathlib.Path(raw._file)
    acts = {
        "network": lambda: socket.create_connection(("127.0.0.1", 80), timeout=2),
        "internet": lambda: socket.create_connection(("192.0.2.1", 80), timeout=2),
        "home": lambda: [name for name in os.listdir("HOME") if name != "previews"] or 1 / 0,
        "others": lambda: os.listdir("HOME/previews")[1:] or 1 / 0,
        "warehouse": lambda: list(pathlib.Path("WAREHOUSE").rglob("*")) or 1 / 0,
        "table": lambda: os.listdir("TABLE"),
        "request": lambda: os.listdir(sample.parent.parent / "request.json"),
        "metadata": lambda: next(sample.parent.parent.glob("*.json")).read_text(),
        "sample": lambda: sample.write_bytes(b""),
        "code": lambda: pathlib.Path(__file__).write_text(""),
        "catalog": lambda: raw._connections.catalog,
        "table of a job": lambda: out.load(),
        "changes": lambda: out.apply_changelog(raw.arrow(), keys=["id"]),
    }
    answers = {name: probe(act) for name, act in acts.items()}
    out.write_polars(pl.DataFrame({"probe": list(answers), "answer": list(answers.values())}))
"""
FORGED = """
    pathlib.Path(out._file).symlink_to("/etc/passwd")
    answer = pathlib.Path(out._file).with_name("result.json")
    body = {"outputs": [{"path": "PATH", "is_append": False, "is_cut": False}], "failures": []}
    answer.write_text(json.dumps({"protocol": 1, "kind": "PreviewResult", "body": body}))
    os._exit(0)
"""


def test_hostile_code_reaches_nothing_and_takes_no_more_than_it_may(
    world: World, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = str(datasets.a_pyiceberg(world.users["admin"]).load_table("shop.raw").location()).removeprefix("file://")
    files = {path: path.stat().st_mtime_ns for path in Path(location).rglob("*")}
    text = PROBES.replace("HOME", str(home)).replace("TABLE", location).replace("WAREHOUSE", str(Path(location).parent))
    preview = run(world, text)
    assert preview.state == PreviewState.READY, preview.error
    answers = dict(read(world, preview, "/rows")["rows"])
    assert len(answers) == 13
    assert [name for name, answer in answers.items() if not answer.startswith("refused: ")] == []
    assert {path: path.stat().st_mtime_ns for path in Path(location).rglob("*")} == files
    monkeypatch.setattr(services, "LIMITS", {**services.LIMITS, "disk_bytes": 2**26})
    probing, _, _ = text.partition("    answers = ")
    for line, codes in (
        ("    x = [bytearray(2**28) for _ in range(16)]\n", {"memory_limit", "transform_failed"}),
        ("    open(out._file, 'wb').write(bytes(2**28))\n", {"disk_limit", "transform_failed"}),
        ("    open(out._file, 'wb').write(b'PAR1'); out._written = 'replace'\n", {"refused", "unreadable"}),
        (FORGED.replace("PATH", "/shop/raw"), {"crashed"}),
        (FORGED.replace("PATH", "/shop/cleaned"), {"refused", "unreadable"}),
    ):
        ended = run(world, probing + line)
        assert (ended.state, ended.code in codes) == (PreviewState.FAILED, True), (line, ended.code, ended.error)
        assert "root:" not in open_page(world, ended)
    monkeypatch.setattr(services, "TIME_LIMIT_S", 4.0)
    assert run(world, probing + "    while True: pass\n").code == "time_limit"
    assert {path: path.stat().st_mtime_ns for path in Path(location).rglob("*")} == files


def test_it_is_stopped_kept_for_a_day_and_for_its_owner_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    preview = run(world, CLEAN)
    assert read(world, preview, role="maintainer") == 404
    waiting = CodePreview.objects.get(pk=ask(world, CLEAN).json()["id"])
    assert ask(world, CLEAN).status_code == 202
    assert ask(world, CLEAN).status_code == 429
    stop = Client().post(f"{API}/{waiting.pk}/cancel", headers=world.bearer("writer", ""))
    assert stop.json()["state"] == "cancelled"
    services.run_preview(preview_id=waiting.pk)
    assert "a-writer stopped the preview." in open_page(world, waiting)
    folder = queries.result_folder(preview)
    assert sorted(path.name for path in folder.iterdir()) == ["log", "result"]
    CodePreview.objects.update(created_at=clock.now() - services.KEPT)
    assert services.prune_previews() == 7  # one more of each role
    assert not folder.exists()
    assert read(world, preview) == 404


def test_preview_fails_on_a_transaction_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services.datasets, "find_transaction", lambda _pk: None)
    preview = run(world, CLEAN)
    assert (preview.state, preview.code) == (PreviewState.FAILED, "expired")
    assert re.fullmatch(r"/shop/raw: transaction \w+ on branch fix is gone\.", preview.error)
