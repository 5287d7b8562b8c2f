"""Parquet files in the editor: shown as JSON lines, committed as Parquet, and never lost to a line that does not fit."""

from __future__ import annotations

import io
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client

from tests.factories.pages import read_page
from webapp.accounts.models import User
from webapp.core.principals import Principal
from webapp.git.values import Change
from webapp.repositories import queries, services
from webapp.repositories.models import Repository

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
PATH = "seeds/nyc/codes.parquet"
LINES = '{"code":"AA","flights":1}\n{"code":"B6","flights":null}\n'


@pytest.fixture
def web(ines: Principal, repository: Repository, readers: Path) -> Client:
    """Return the maintainer's browser; the repository has a Parquet file."""
    _commit(repository, ines, pa.table({"code": ["AA", "B6"], "flights": pa.array([1, None], pa.int32())}))
    client = Client()
    client.force_login(User.objects.get(pk=ines.user_id))
    return client


def _commit(repository: Repository, by: Principal, table: pa.Table, path: str = PATH) -> None:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    head = queries.get_head(repository, "master")
    changes = [Change(path=path, content=sink.getvalue())]
    services.commit_files(
        repository=repository, branch="master", message="Seed", changes=changes, expected_head=head, by=by
    )


def _send(web: Client, repository: Repository, lines: str, *, path: str = PATH, **fields: str) -> Any:
    head = fields.pop("head", queries.get_head(repository, "master"))
    common = {
        "source": PATH,
        "path": path,
        "content": lines,
        "message": "Change rows",
        "target": "direct",
        "branch": "",
    }
    return web.post(f"/r/nyc/edit/master/{PATH}", {**common, "head": head, **fields})


def _rows(repository: Repository) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(queries.read_file(repository, "master", PATH))).to_pylist()
    return rows


def test_rows_are_shown_and_committed_as_parquet(web: Client, repository: Repository) -> None:
    assert "or edit its rows" in read_page(web.get(f"/r/nyc/blob/master/{PATH}"))
    page = web.get(f"/r/nyc/edit/master/{PATH}")
    assert page.context["form"].initial["content"] == LINES
    assert page.context["rows"].columns_json == '[["code", true], ["flights", false]]'
    changed = LINES.replace("null", "7").replace("\n", "\r\n")
    preview = _send(web, repository, changed, act="preview")
    [file] = preview.context["changes"]
    assert (file.additions, file.deletions) == (1, 1)
    assert _send(web, repository, changed).status_code == 302
    assert _rows(repository) == [{"code": "AA", "flights": 1}, {"code": "B6", "flights": 7}]
    table = pq.read_table(io.BytesIO(queries.read_file(repository, "master", PATH)))
    assert table.schema.field("flights").type == pa.int32()


def test_what_nobody_changed_keeps_its_bytes(web: Client, repository: Repository) -> None:
    before = queries.read_file(repository, "master", PATH)
    assert _send(web, repository, LINES, path="seeds/nyc/carriers.parquet").status_code == 302
    assert queries.read_file(repository, "master", "seeds/nyc/carriers.parquet") == before


@pytest.mark.parametrize("act", ["preview", ""])
def test_a_line_that_does_not_fit_is_named_and_the_text_is_kept(web: Client, repository: Repository, act: str) -> None:
    head = queries.get_head(repository, "master")
    answer = _send(web, repository, LINES + '{"code":"DL","flights":"many"}\n', act=act)
    assert answer.status_code == 422
    text = unescape(read_page(answer))
    assert f"{PATH}: line 3: column 'flights' takes a whole number (int32), not" in text
    assert "DL" in text
    assert queries.get_head(repository, "master") == head


def test_others_changes_are_shown_as_rows(web: Client, repository: Repository, ines: Principal) -> None:
    head = queries.get_head(repository, "master")
    _commit(repository, ines, pa.table({"code": ["AA"], "flights": pa.array([2], pa.int32())}))
    answer = _send(web, repository, LINES.replace("null", "7"), head=head)
    assert answer.status_code == 409
    [file] = answer.context["moved"]
    assert [line.text for hunk in file.hunks for line in hunk.lines if line.kind != "context"] == [
        '{"code":"AA","flights":1}',
        '{"code":"B6","flights":null}',
        '{"code":"AA","flights":2}',
    ]
    assert _rows(repository) == [{"code": "AA", "flights": 2}]


def test_it_becomes_json_lines_or_stays_parquet(web: Client, repository: Repository) -> None:
    answer = _send(web, repository, LINES, path="seeds/nyc/codes.csv")
    assert answer.status_code == 422
    assert "stays a Parquet file, or becomes one that ends with .jsonl" in read_page(answer)
    assert _send(web, repository, LINES, path="seeds/nyc/codes.jsonl").status_code == 302
    assert queries.read_file(repository, "master", "seeds/nyc/codes.jsonl").decode() == LINES


def test_a_new_one_is_not_written_as_text(web: Client, repository: Repository) -> None:
    head = queries.get_head(repository, "master")
    fields = {"path": "seeds/nyc/new.parquet", "content": LINES, "message": "New", "target": "direct", "head": head}
    answer = web.post("/r/nyc/new/master/", fields)
    assert answer.status_code == 422
    assert "a Parquet file is not written as text" in read_page(answer)


def test_rows_without_a_text_are_refused_by_name(web: Client, repository: Repository, ines: Principal) -> None:
    _commit(repository, ines, pa.table({"tags": [["a"]]}), "seeds/nyc/tags.parquet")
    answer = web.get("/r/nyc/edit/master/seeds/nyc/tags.parquet", follow=True)
    assert answer.redirect_chain == [("/r/nyc/blob/master/seeds/nyc/tags.parquet", 302)]
    refusal = "column 'tags' is a list<element: string>, which has no text to edit. Change it with Git."
    assert refusal in unescape(read_page(answer))


def test_it_goes_along_with_other_files(web: Client, repository: Repository) -> None:
    """Left for another file and untouched it is no draft; changed it is one, and is committed as Parquet."""
    untouched = _send(web, repository, LINES, open="README.md")
    assert untouched.context["drafts"] == []
    opened = _send(web, repository, LINES.replace("null", "7"), open="README.md")
    [(draft, _)] = opened.context["drafts"]
    names = {"draft-path-1": draft.path, "draft-target-1": draft.target, "draft-text-1": draft.text}
    fields = {**names, "source": "README.md", "path": "README.md", "content": "# Codes\n", "message": "Both"}
    head = queries.get_head(repository, "master")
    sent = web.post("/r/nyc/edit/master/README.md", {**fields, "target": "direct", "branch": "", "head": head})
    assert sent.status_code == 302
    assert _rows(repository)[1] == {"code": "B6", "flights": 7}
