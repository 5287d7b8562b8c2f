"""The guide's "Automation": from a new repository to a pull request, as somebody with a token."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from tests.factories.builds import PASSWORD, Stack
from tests.factories.guide import Reader, read_chapter

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_every_block_prints_what_it_says(stack: Stack, tmp_path: Path) -> None:
    stack.call("POST", "/users", json={"username": "ines", "password": PASSWORD}, expect=201)
    answer = requests.post(f"{stack.url}/tokens", json={"name": "guide"}, auth=("ines", PASSWORD), timeout=10)
    reader = Reader(stack.url, folder=tmp_path, TRIBUTARY_TOKEN=answer.json()["token"])

    languages = reader.read(read_chapter("automation"))

    assert languages == ["python", "sh"]
