"""What the days share: a second repository that reads the demo's data, its people, and the tables that pages speak of."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.factories.builds import wait_until
from tests.factories.installation import Demo, Installation

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEMO = "feature/cancelled-flights"
PIPELINE = """
[pipeline]
packages = ["pipelines"]
folders = ["/reports"]

[datasets."/reports/bad_days"]
key = ["day", "carrier"]
sensitive = ["late"]
"""
BAD_DAYS = '''"""Days on which a carrier was late more often than not."""

import polars as pl
from transforms.api import transform
from transforms.tables import IcebergInput, IcebergOutput, TableInput, TableOutput


@transform.using(daily=TableInput("/nyc/delays/daily"), bad_days=TableOutput("/reports/bad_days"))
def compute(daily: IcebergInput, bad_days: IcebergOutput) -> None:
    """Keep the days of a carrier on which more than half of its flights were late."""
    days = daily.polars(columns=["day", "carrier", "flights", "late"])
    bad_days.write_polars(days.filter(pl.col("late") * 2 > pl.col("flights")).sort("day", "carrier"))
'''


class Api:
    """The REST API as one person."""

    def __init__(self, installation: Installation, username: str) -> None:
        """Take a token."""
        self.installation, self.token = installation, installation.make_token(username)

    def get(self, path: str) -> Any:
        """Ask for something."""
        return self.installation.get(path, token=self.token)

    def post(self, path: str, **body: Any) -> Any:
        """Ask for something new."""
        return self.installation.post(path, body, token=self.token)

    def branch(self, repository: str, name: str, files: dict[str, str], *, message: str) -> None:
        """Begin a branch of master, unless it is there, and commit files to it."""
        if name != "master":
            self.post(f"/repositories/{repository}/branches", name=name, start_point="master")
        self.commit(repository, name, files, message=message)

    def commit(self, repository: str, branch: str, files: dict[str, str], *, message: str) -> None:
        """Commit files."""
        changes = [{"path": path, "content": content} for path, content in files.items()]
        self.post(f"/repositories/{repository}/commits", branch=branch, message=message, changes=changes)

    def build(self, repository: str, branch: str, *targets: str) -> None:
        """Build datasets and wait for them."""
        number = self.post("/builds", repository=repository, branch=branch, targets=targets)["id"]
        wait_until(lambda: self.get(f"/builds/{number}")["state"] == "COMPLETED", seconds=60, every=0.2)

    def pull(self, repository: str, branch: str, *, title: str, **more: Any) -> str:
        """Open a pull request into master; return the address of its page."""
        body = {"title": title, "source": branch, "target": "master", **more}
        return f"/r/{repository}/pulls/{self.post(f'/repositories/{repository}/pulls', **body)['number']}"

    def read(self, repository: str, path: str, *, branch: str = "master") -> str:
        """Read a file."""
        content = self.get(f"/repositories/{repository}/contents/{path}?ref={branch}")["content"]
        return b64decode(content).decode()

    def rows(self, table: str, *, branch: str = "master") -> list[dict[str, Any]]:
        """Read a table with PyIceberg."""
        from pyiceberg.catalog.rest import RestCatalog

        header = {"header.X-PLTR-Branch": branch}
        catalog = RestCatalog("t", uri=self.installation.catalog, token=self.token, **header)
        rows: list[dict[str, Any]] = catalog.load_table(table).scan().to_arrow().to_pylist()
        return rows


@pytest.fixture(scope="package")
def installation(demo: Demo) -> Iterator[Installation]:
    """An installation of these people's own: they merge, push and ask, and other tests count what the demo has."""
    with demo.running() as running:
        yield running


@pytest.fixture(scope="package")
def ask(installation: Installation) -> Callable[[str], Api]:
    """Return the REST API as one of the people, by name."""
    known: dict[str, Api] = {}

    def find(username: str) -> Api:
        if username not in known:
            known[username] = Api(installation, username)
        return known[username]

    return find


@pytest.fixture(scope="package")
def reports(installation: Installation, ask: Callable[[str], Api]) -> str:
    """Rosa's repository, which reads the delays; her pull request, which follows the one of the demo; its address.

    Nina reads it, and knows nothing of the delays.
    """
    installation.make_user("rosa", roles={"nyc": "reader"})
    rosa = ask("rosa")
    rosa.post("/repositories", name="reports", template="empty")
    files = {"pipeline.toml": PIPELINE, "pipelines/bad_days.py": BAD_DAYS}
    rosa.branch("reports", "master", files, message="Find bad days")
    rosa.build("reports", "master", "/reports/bad_days")
    counted = BAD_DAYS.replace('"flights", "late"', '"flights", "cancelled", "late"')
    rosa.branch("reports", DEMO, {"pipelines/bad_days.py": counted}, message="Say how many were cancelled")
    rosa.build("reports", DEMO, "/reports/bad_days")
    installation.make_user("nina", roles={"reports": "reader"})
    return rosa.pull("reports", DEMO, title="Say how many flights were cancelled")


@dataclass(frozen=True)
class Changes:
    """How the rows of two branches differ, counted from the tables themselves."""

    added: int
    removed: int
    changed: int


def compare_rows(who: Api, table: str, *, branch: str, key: tuple[str, ...], columns: tuple[str, ...]) -> Changes:
    """Compare the rows of a branch with master's; those that have the same key are changed where a column differs."""

    def index(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        return {tuple(row[name] for name in key): tuple(row[name] for name in columns) for row in rows}

    before, after = index(who.rows(table)), index(who.rows(table, branch=branch))
    both = before.keys() & after.keys()
    changed = sum(before[place] != after[place] for place in both)
    return Changes(len(after) - len(both), len(before) - len(both), changed)


def agree(page: Page, words: str) -> None:
    """Read what an action will do, and agree."""
    dialog = page.locator("#confirm")
    expect(dialog).to_contain_text(words)
    dialog.locator("[data-agree]").click()


def check_fit(page: Page) -> None:
    """No page scrolls sideways, wide or narrow; what does, scrolls inside of itself."""
    size = page.viewport_size
    assert size is not None
    for width in (400, size["width"]):
        page.set_viewport_size({"width": width, "height": size["height"]})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{page.url} scrolls sideways at {width}"
