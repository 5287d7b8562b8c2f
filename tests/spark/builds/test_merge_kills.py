"""kill -9 of a job or of the Spark server while Spark's MERGE of `apply_changelog` computes, writes and commits.

Nobody sees anything of it, and the changes are applied once: by the next build where the job was killed, which fails then,
and by the job's next attempt where it was the server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.factories.builds import Stack, running_stack, wait_until
from tests.factories.gate import Gate, Moment

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]
Victim = Literal["job", "spark"]
VICTIMS = ["job", "spark"]
SOURCE = """import time

from transforms.api import incremental, transform
from transforms.tables import TableInput, TableOutput


@incremental()
@transform.spark.using(source=TableInput("/shop/few"), output=TableOutput("/shop/few_now"))
def few_now(ctx, source, output):
    output.apply_changelog(source.changelog(["a"]), ["a"])


@incremental()
@transform.spark.using(source=TableInput("/shop/many"), output=TableOutput("/shop/many_now"))
def many_now(ctx, source, output):
    changes = source.changelog(["a"])
    print("applying")
    began = time.monotonic()
    output.apply_changelog(changes, ["a"])
    print(f"applied in {time.monotonic() - began:.1f} s")
"""
SIZES = {"/shop/few": 3, "/shop/many": 300_000}
PUT_BACK = "put back: The Spark engine ended, and what the job computed on it."


@dataclass
class Place:
    """An installation whose jobs and Spark reach the catalog through a gate."""

    stack: Stack
    gate: Gate
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SIZES, 0))
    """How often each source has changed; each time by one key that goes, one that comes, and many that change."""

    def change(self, source: str) -> None:
        self.versions[source] += 1
        assert self.stack.upload(source, to_csv(source, self.versions[source])).status_code == 201

    def follow(self, source: str) -> dict[str, Any]:
        """Let an output catch up with its source."""
        build = self.stack.build(f"{source}_now", seconds=400)
        self.check_built(source, build)
        return build

    def check_built(self, source: str, build: dict[str, Any]) -> None:
        """See that a build has made an output what its source is."""
        assert build["state"] == "COMPLETED", "\n".join(self.stack.log(job["id"]) for job in build["jobs"])
        assert self.holds(source, self.versions[source])

    def holds(self, source: str, version: int) -> bool:
        """Whether an output holds just what its source held in some version."""
        found = sorted((row["a"], row["b"]) for row in self.stack.rows(f"{source}_now"))
        return found == rows_of(source, version)

    def list_files(self, source: str) -> set[Path]:
        """The data files of an output, those that no snapshot has too."""
        location = self.stack.load(f"{source}_now").location().removeprefix("file://")
        return set(Path(location, "data").rglob("*.parquet"))

    def kill(self, victim: Victim, job: dict[str, Any]) -> None:
        """kill -9 of the job's process, or of the Spark server, and wait until the installation knows of it."""
        if victim == "job":
            self.stack.kill_jobs()
            self.stack.wait(lambda: "failed: " in self.stack.log(job["id"]), seconds=200)
        else:
            self.stack.kill("spark")
            self.stack.wait(lambda: PUT_BACK in self.stack.log(job["id"]), seconds=200)

    def check_after(self, source: str, build_id: int, victim: Victim, before: list[int]) -> None:
        """What was left behind by the build that was hit, and what comes of the changes."""
        output = f"{source}_now"
        assert self.stack.history(output) == before
        assert self.holds(source, self.versions[source] - 1)
        if victim == "job":
            assert self.stack.wait_for_build(build_id)["state"] == "FAILED"
            self.check_nothing_staged(output)
            self.follow(source)
        else:
            self.stack.start_spark()
            self.check_built(source, self.stack.wait_for_build(build_id, seconds=400))
        # one snapshot more: the changes are in the table once
        assert self.stack.history(output)[1:] == before
        self.check_nothing_staged(output)

    def check_nothing_staged(self, path: str) -> None:
        assert self.stack.open_transactions() == []
        metadata = self.stack.load(path).metadata
        assert list(metadata.refs) == ["main"]
        assert [name for name in metadata.properties if "staging" in name] == []


def rows_of(source: str, version: int) -> list[tuple[int, str]]:
    return [(key, f"{version if key % 3 else 0} of {key}") for key in range(version, version + SIZES[source])]


def to_csv(source: str, version: int) -> str:
    return "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows_of(source, version))


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
        for source in SIZES:
            found.change(source)
        stack.commit({"pipelines/following.py": SOURCE})
        for source in SIZES:
            found.follow(source)
        yield found


@pytest.fixture(scope="module")
def usual_s(place: Place) -> float:
    """How long an apply of many changes takes that nobody disturbs."""
    place.change("/shop/many")
    (job,) = place.follow("/shop/many")["jobs"]
    return float(re.findall(r"applied in (\S+) s", place.stack.log(job["id"]))[0])


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, "writing"])
def test_killed_while_the_merge_computes(
    place: Place, usual_s: float, victim: Victim, share: float | Literal["writing"]
) -> None:
    stack, source = place.stack, "/shop/many"
    before, files = stack.history(f"{source}_now"), place.list_files(source)
    place.change(source)
    started = stack.start_build(f"{source}_now")
    job = stack.wait_for_job(started["id"], "RUNNING", seconds=60)
    wait_until(lambda: "applying" in stack.log(job["id"]), seconds=200, every=0.02)
    if share == "writing":
        wait_until(lambda: bool(place.list_files(source) - files), seconds=200, every=0.02)
    else:
        time.sleep(share * usual_s)
    place.kill(victim, job)
    assert "applied in" not in stack.log(job["id"])
    time.sleep(usual_s)  # a MERGE that went on would be done by now
    place.check_after(source, started["id"], victim, before)


@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_around_the_commit_of_the_merge(place: Place, moment: Moment, victim: Victim) -> None:
    stack, source = place.stack, "/shop/few"
    before = stack.history(f"{source}_now")
    place.change(source)
    place.gate.hold(moment)
    started = stack.start_build(f"{source}_now")
    job = stack.wait_for_job(started["id"], "RUNNING", seconds=60)
    assert place.gate.held.wait(120)
    place.kill(victim, job)
    place.gate.release()
    assert place.gate.answered.wait(60)
    # what arrives when its attempt is over is refused
    assert place.gate.status == (200 if moment == "after" else 401), place.gate.status
    place.check_after(source, started["id"], victim, before)
