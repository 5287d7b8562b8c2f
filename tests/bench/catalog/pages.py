"""Whether a page of a list costs the same wherever it is and however long the list."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from tests.bench.catalog.client import Client, Contender
from tests.bench.catalog.works import PAGE, Effort, Result, measure
from tests.contract.catalog.conftest import ROOT, environment_of

PLACES = ("first", "middle", "last")
_MAKE_ROWS = """
import sys, django
django.setup()
from webapp.catalog.models import Namespace, Table
for count in map(int, sys.argv[1:]):
    space = Namespace.objects.create(path=f"pages_{count}")
    Table.objects.bulk_create(
        Table(namespace=space, name=f"t{n:06d}", location=f"none:{count}/{n}", metadata_location=f"none:{count}/{n}/m")
        for n in range(count)
    )
"""


def run_pages(ours: Contender, home: Path, effort: Effort) -> list[Result]:
    """The first, the middle and the last page of lists of growing length."""
    make_rows(home, ours.port, effort.lists)
    client = ours.connect()
    found = []
    for count in effort.lists:
        paths = _page_paths(client, f"namespaces/pages_{count}/tables", count)
        values = measure({place: _reader(client, path) for place, path in paths.items()}, effort.loads // 2)
        found.append(Result(f"{PAGE} of {count:,} tables", values))
    return found


def make_rows(home: Path, port: int, counts: tuple[int, ...]) -> None:
    """Namespaces with so many tables, as rows alone: a list reads nothing else."""
    command = [sys.executable, "-c", _MAKE_ROWS, *map(str, counts)]
    subprocess.run(command, cwd=ROOT, env=environment_of(home, port), check=True)


def _page_paths(client: Client, path: str, count: int) -> dict[str, str]:
    """Where the three pages are, by the tokens that a client gets on its way through all of them."""
    tokens: list[str] = []
    token: str | None = ""
    listed = 0
    while token is not None:
        tokens.append(token)
        page = client.call("GET", _paged(path, token)).json()
        listed += len(page["identifiers"])
        token = page["next-page-token"]
    assert listed == count, f"{listed} of {count} tables were listed"
    chosen = (tokens[0], tokens[len(tokens) // 2], tokens[-1])
    return {place: _paged(path, token) for place, token in zip(PLACES, chosen, strict=True)}


def _paged(path: str, token: str) -> str:
    return f"{path}?pageSize={PAGE}&pageToken={quote(token)}"


def _reader(client: Client, path: str) -> Callable[[], None]:
    def read() -> None:
        answer = client.call("GET", path)
        assert answer.status == 200, answer.body[:300]

    return read
