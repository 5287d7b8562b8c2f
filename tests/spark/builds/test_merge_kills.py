"""kill -9 of a job around the commit of Spark's MERGE of `apply_changelog`: the table is right after the next build."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.factories.builds import Stack, running_stack
from tests.factories.gate import Gate, Moment

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]
SOURCE = """from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput


@incremental()
@transform.spark.using(source=TableInput("/shop/raw"), output=TableOutput("/shop/current"))
def current(ctx, source, output):
    output.apply_changelog(source.changelog(["a"]), ["a"])
"""


@dataclass
class Place:
    """An installation whose jobs and Spark reach the catalog through a gate."""

    stack: Stack
    gate: Gate
    content: int = 0
    """How often the source has changed; each time by one key that goes, one that changes, and one that comes."""

    def change_source(self) -> None:
        self.content += 1
        assert self.stack.upload("/shop/raw", to_csv(self.content)).status_code == 201

    def follow(self, path: str) -> None:
        """Let an output catch up with its source."""
        build = self.stack.build(path, seconds=240)
        assert build["state"] == "COMPLETED", (build, [self.stack.log(job["id"]) for job in build["jobs"]])
        assert self.rows(path) == rows_of(self.content)

    def rows(self, path: str) -> list[tuple[int, str]]:
        return sorted((row["a"], row["b"]) for row in self.stack.rows(path))


def rows_of(version: int) -> list[tuple[int, str]]:
    return [(version, f"old {version}"), (version + 1, f"new {version}"), (1000, "kept")]


def to_csv(version: int) -> str:
    return "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows_of(version))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return an installation that has built everything once."""
    home = tmp_path_factory.mktemp("merge-kills") / "home"
    home.mkdir(mode=0o700)
    gate = Gate()
    with (
        gate.open(),
        running_stack(
            home,
            spark=True,
            TRIBUTARY_EMBEDDED_BYTES="1",
            TRIBUTARY_CATALOG_URI=f"http://127.0.0.1:{gate.port}/iceberg",
        ) as stack,
    ):
        gate.target = stack.port
        stack.make_repository()
        found = Place(stack, gate)
        found.change_source()
        stack.commit({"pipelines/following.py": SOURCE})
        found.follow("/shop/current")
        yield found


def check_after(place: Place, path: str, before: list[int]) -> None:
    """What the build that was hit leaves behind, and what the next one makes of it."""
    stack = place.stack
    assert place.rows(path) == rows_of(place.content - 1)
    assert stack.history(path) == before
    check_nothing_staged(stack, path)
    place.follow(path)
    # one snapshot more: the changes are in the table once
    assert stack.history(path)[1:] == before
    check_nothing_staged(stack, path)


def check_nothing_staged(stack: Stack, path: str) -> None:
    assert stack.open_transactions() == []
    metadata = stack.load(path).metadata
    assert list(metadata.refs) == ["main"]
    assert [name for name in metadata.properties if "staging" in name] == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_commit_of_the_merge(place: Place, moment: Moment) -> None:
    stack, path = place.stack, "/shop/current"
    before = stack.history(path)
    place.change_source()
    place.gate.hold(moment)
    started = stack.start_build(path)
    assert place.gate.held.wait(120)
    stack.kill_jobs()
    build = stack.wait_for_build(started["id"], seconds=120)
    assert build["state"] == "FAILED", build
    place.gate.release()
    assert place.gate.answered.wait(60)
    # what arrives when its job is over is refused
    assert place.gate.status == (200 if moment == "after" else 401), place.gate.status
    check_after(place, path, before)
