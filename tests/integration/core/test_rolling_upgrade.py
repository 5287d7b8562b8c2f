"""While an installation is upgraded the last release and this one work on one home: the same is true at both, and nothing fails.

The order is the guide's: tables, workers, new web, old web down. The last release's code comes from the history of this
clone; where that is cut, `test_old_statements.py` and `test_migrations.py` say as much as can be said without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException

from tests.factories.browsing import sign_in
from tests.factories.builds import HEAD, PASSWORD, Stack, make_transform
from tests.factories.released import read_release
from tests.factories.rolling import Upgrade, upgrading
from tests.factories.tiers import further

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not read_release().has_code(), reason="the history of this clone ends before the last release"),
]
SECONDS = 120
COMMITS = 3
REVIEWER = "rita"


@dataclass
class Pair:
    """Two web processes that take turns: one acts, and both say what became of it."""

    first: Stack
    second: Stack

    def __post_init__(self) -> None:
        self.sides = (self.first, self.second)
        self._turns = cycle(self.sides)

    def act(self) -> Stack:
        """Whose turn it is."""
        return next(self._turns)

    def agree(self, ask: Callable[[Stack], Any]) -> Any:
        """Return what both answer."""
        first, second = map(ask, self.sides)
        assert first == second
        return first

    def wait_for(self, ask: Callable[[Stack], Any], *, until: Callable[[Any], bool]) -> None:
        """Wait until both answer as they should."""
        for side in self.sides:
            side.wait(lambda side=side: until(ask(side)), seconds=SECONDS)  # type: ignore[misc]


@pytest.fixture
def upgrade(tmp_path: Path) -> Iterator[Upgrade]:
    """An installation of the last release whose web process runs, with a person and a repository of before."""
    with upgrading(tmp_path) as found:
        found.start_old_web()
        found.old.call("POST", "/users", json={"username": REVIEWER, "password": PASSWORD}, expect=201)
        found.old.make_repository("before")
        yield found


@further("integration/core/test_old_statements.py::test_old_processes_read_write_and_remove_in_every_table")
def test_both_releases_serve_one_home(upgrade: Upgrade) -> None:
    sha = leave_work(upgrade.old)
    upgrade.migrate()
    upgrade.start_workers(upgrade.new)
    upgrade.start_new_web()

    for side in (upgrade.old, upgrade.new):
        assert side.wait_for_publication(sha, repository="before")["published"]["status"] == "published"
    work(Pair(upgrade.old, upgrade.new), "shop")

    check_end(upgrade)


@pytest.mark.soak
def test_each_release_serves_while_the_other_one_s_workers_go(upgrade: Upgrade) -> None:
    upgrade.start_workers(upgrade.old)
    leave_work(upgrade.old)
    work(Pair(upgrade.old, upgrade.old), "alone")
    upgrade.migrate()
    work(Pair(upgrade.old, upgrade.old), "migrated")
    late = leave_work(upgrade.old, name="late")
    upgrade.stop_workers(upgrade.old)
    # Jobs go to the web part that serves, by an address that a real installation keeps.
    upgrade.new.more["TRIBUTARY_CATALOG_URI"] = f"http://127.0.0.1:{upgrade.old.port}/iceberg"
    upgrade.start_workers(upgrade.new)
    work(Pair(upgrade.old, upgrade.old), "workers")
    upgrade.start_new_web()
    upgrade.new.wait_for_publication(late, repository="late")
    for number, pair in enumerate([(upgrade.old, upgrade.new), (upgrade.new, upgrade.old)]):
        work(Pair(*pair), f"both{number}")
    upgrade.old.stop()
    upgrade.stop_workers(upgrade.new)
    del upgrade.new.more["TRIBUTARY_CATALOG_URI"]
    upgrade.start_workers(upgrade.new)
    work(Pair(upgrade.new, upgrade.new), "after")

    check_end(upgrade)


def check_end(upgrade: Upgrade) -> None:
    """Nothing failed, and by this release's word everything is as promised once its sweep has seen what the last one wrote."""
    assert upgrade.refused == []
    assert upgrade.list_errors() == []
    found: list[str] = []

    def is_sound() -> bool:
        status, said = upgrade.run(upgrade.new, "fsck")
        found[:] = [said]
        return status == 0 and "jobspec_inputs_differ" not in said

    try:
        upgrade.new.wait(is_sound, seconds=SECONDS)
    except AssertionError as error:
        raise AssertionError("\n".join(found)) from error


def leave_work(side: Stack, *, name: str = "before") -> str:
    """Ask for a publication by a message that the other release's workers find; return the commit."""
    if name != "before":
        side.make_repository(name)
    files = {"pipeline.toml": write_settings(name), "pipelines/shop.py": write_source(name, 1)}
    changes = [{"path": path, "content": content} for path, content in files.items()]
    body = {"branch": "master", "message": "Begin", "changes": changes}
    return str(side.call("POST", f"/repositories/{name}/commits", json=body, expect=201)["sha"])


def write_settings(name: str) -> str:
    return f'[pipeline]\npackages = ["pipelines"]\nfolders = ["/{name}"]\n\n[datasets."/{name}/totals"]\nkey = ["id"]\n'


def write_source(name: str, factor: int) -> str:
    body = f'rows = i0.arrow()\nout.write_table(rows.append_column("factor", pa.array([{factor}] * len(rows))))'
    return HEAD + make_transform("totals", inputs=[f"/{name}/raw"], output=f"/{name}/totals", body=body)


def work(pair: Pair, name: str) -> None:
    """What an installation is for: data by uploads and PyIceberg, a branch, a build, a pull request, a merge."""
    pair.act().make_repository(name)
    pair.act().call("POST", f"/repositories/{name}/members", json={"user": REVIEWER, "role": "maintainer"})
    assert pair.act().upload(f"/{name}/raw", "id,v\na,1\nb,2\n").status_code < 300
    pair.wait_for(lambda side: count(side, f"/{name}/raw"), until=lambda rows: rows == 2)
    write_by_both(pair, name)
    change_and_build(pair, name)
    merge(pair, name, open_pull(pair, name))


def write_by_both(pair: Pair, name: str) -> None:
    """Commits of both at one time to one table, and to a branch of it: all are there, each where it belongs."""
    with ThreadPoolExecutor(len(pair.sides)) as pool:
        list(pool.map(lambda number: append(pair.sides[number], name, f"row {number}"), range(len(pair.sides))))
    assert pair.agree(lambda side: count(side, f"/{name}/raw")) == 2 + 2 * COMMITS


def append(side: Stack, name: str, row: str, *, branch: str = "master", times: int = COMMITS) -> None:
    """Commit rows by PyIceberg; who loses a race loads the table anew."""
    header = {} if branch == "master" else {"header.X-PLTR-Branch": branch}
    catalog = RestCatalog("tests", uri=f"http://127.0.0.1:{side.port}/iceberg", token=side.token, **header)
    left = times
    while left:
        table = catalog.load_table(f"{name}.raw")
        try:
            table.append(pa.table({"id": [row], "v": [left]}, schema=table.schema().as_arrow()))
        except CommitFailedException:
            continue
        left -= 1


def count(side: Stack, path: str, *, branch: str = "master") -> int:
    """How many rows a plain client finds."""
    return len(side.rows(path, branch=branch)) if side.call("GET", f"/datasets?path={path}")["results"] else 0


def commit(pair: Pair, name: str, branch: str, files: dict[str, str]) -> None:
    """Commit at one; both say that it is published."""
    sha = pair.act().commit(files, branch=branch, repository=name)["sha"]
    status = pair.agree(lambda side: side.wait_for_publication(sha, repository=name)["published"]["status"])
    assert status == "published"


def build(pair: Pair, name: str, branch: str) -> None:
    """Build at one; both say that it is completed."""
    number = pair.act().start_build(f"/{name}/totals", branch=branch)["id"]
    state = pair.agree(lambda side: side.wait_for_build(number, seconds=SECONDS)["state"])
    assert state == "COMPLETED", pair.first.call("GET", f"/builds/{number}")


def change_and_build(pair: Pair, name: str) -> None:
    """A pipeline on master, and another one on a branch that has rows of its own."""
    commit(pair, name, "master", {"pipeline.toml": write_settings(name), "pipelines/shop.py": write_source(name, 1)})
    build(pair, name, "master")
    begin = {"name": "fix", "start_point": "master"}
    pair.act().call("POST", f"/repositories/{name}/branches", json=begin, expect=201)
    commit(pair, name, "fix", {"pipelines/shop.py": write_source(name, 2)})
    for number, side in enumerate(pair.sides):
        append(side, name, f"of fix {number}", branch="fix", times=1)
    rows = {"master": 2 + 2 * COMMITS, "fix": 4 + 2 * COMMITS}
    for branch, expected in rows.items():
        assert pair.agree(lambda side, branch=branch: count(side, f"/{name}/raw", branch=branch)) == expected
    build(pair, name, "fix")


def open_pull(pair: Pair, name: str) -> str:
    """Open a pull request and talk about it; return its address in the API, when both show what it changes."""
    proposal = {"title": "Fix", "source": "fix", "target": "master"}
    number = pair.act().call("POST", f"/repositories/{name}/pulls", json=proposal, expect=201)["number"]
    pull = f"/repositories/{name}/pulls/{number}"
    for side in pair.sides:
        side.call("POST", f"{pull}/comments", json={"body": f"From {side.root.name}."}, expect=201)
    changed = {f"/{name}/raw": "modified", f"/{name}/totals": "modified"}
    pair.wait_for(lambda side: list_changes(side, pull), until=lambda changes: changes == changed)
    assert [len(row) for row in pair.agree(lambda side: list_counts(side, pull))] == [4, 4]
    for side in pair.sides:
        look_at(side, name, f"/r/{name}/pulls/{number}")
    return pull


def list_changes(side: Stack, pull: str) -> dict[str, str]:
    """What the pull request changes, as far as it is compared."""
    rows = side.call("GET", f"{pull}/datasets")["results"]
    return {row["path"]: row["change"] for row in rows if row["rows"]["state"] == "ready"}


def list_counts(side: Stack, pull: str) -> list[tuple[Any, ...]]:
    """What is compared, and how many rows differ."""
    rows = side.call("GET", f"{pull}/datasets")["results"]
    return [(row["path"], row["from"], row["to"], row["rows"]) for row in rows]


def look_at(side: Stack, name: str, pull: str) -> None:
    """Every page that somebody who reviews opens."""
    host = f"http://127.0.0.1:{side.port}"
    with sign_in(host, "admin", PASSWORD) as browser:
        tabs = [f"{pull}{tab}" for tab in ("", "/commits", "/code", "/schema", "/data", "/builds")]
        for path in (*tabs, "/", "/builds", f"/r/{name}", f"/d/{name}/raw", f"/d/{name}/totals?branch=fix"):
            answer = browser.get(f"{host}{path}", timeout=60)
            assert answer.status_code == 200, f"{side.root} {path}: {answer.status_code}"


def merge(pair: Pair, name: str, pull: str) -> None:
    """Approve as somebody else, merge, and read what the rebuild of master made."""
    side = pair.act()
    signed_in = {"auth": (REVIEWER, PASSWORD), "timeout": 30}
    token = requests.post(f"{side.url}/tokens", json={"name": "tests"}, **signed_in).json()["token"]
    header = {"Authorization": f"Bearer {token}"}
    answer = requests.post(f"{side.url}{pull}/reviews", json={"verdict": "approve"}, headers=header, timeout=60)
    assert answer.status_code == 201, answer.text
    merged = pair.act().call("POST", f"{pull}/merge", json={"rebuild": "modified"}, expect=202)
    state = pair.agree(lambda side: side.wait_for_build(merged["build"]["id"], seconds=SECONDS)["state"])
    assert state == "COMPLETED"
    assert pair.agree(lambda side: side.call("GET", pull)["state"]) == "merged"
    assert pair.agree(lambda side: {row["factor"] for row in side.rows(f"/{name}/totals")}) == {2}
    pair.act().call("DELETE", f"/repositories/{name}/branches/fix", expect=204)
    dataset = pair.act().call("GET", f"/datasets?path=/{name}/raw")["results"][0]["id"]
    pair.wait_for(
        lambda side: [row["name"] for row in side.call("GET", f"/datasets/{dataset}/deleted-branches")["results"]],
        until=lambda names: names == ["fix"],
    )
