"""What ruff says of a text that is not committed: by REST, as the editor asks, in the sandbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.factories import repositories as make
from tests.factories.clients import a_rest_client

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]
URL = "/api/v1/repositories/nyc/lint"


def ask(user: Any, path: str, text: str) -> Any:
    return a_rest_client(user).post(URL, {"path": path, "text": text}, format="json")


def test_problems_are_told_by_line_and_nothing_is_kept(readers: Path) -> None:
    writer = make.a_member(make.a_repository("nyc"), "writer", "wim")
    answer = ask(writer, "pipelines/a.py", 'import os\n\ncarrier = "é" + missing\n')
    assert answer.status_code == 200, answer.content
    assert [(problem["code"], problem["line"], problem["column"]) for problem in answer.json()["problems"]] == [
        ("F401", 1, 8),
        ("F821", 3, 17),
    ]
    [broken, *_] = ask(writer, "a.py", "def f(:\n    pass\n").json()["problems"]
    assert (broken["code"], broken["line"]) == ("invalid-syntax", 1)
    ordered = "# ruff: noqa\nimport os\n"
    assert ask(writer, "../../etc/a.py", ordered).json() == {"problems": []}
    assert ask(writer, "notes.md", "import os\n").json() == {"problems": []}
    long = ask(writer, "a.py", "x" * 1_000_001)
    assert (long.status_code, long.json()["code"]) == (422, "text_too_long")


def test_who_may_not_write_is_refused(home: Any) -> None:
    repository = make.a_repository("nyc")
    assert ask(make.a_member(repository, "reader", "rolf"), "a.py", "x\n").status_code == 403
    assert ask(make.a_person("zoe"), "a.py", "x\n").status_code == 404
