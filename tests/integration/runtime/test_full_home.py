"""A full disk under everything: who is refused, what waits, what goes on, and that all of it is back by itself. Full memory, too."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.entrypoints.cgroups import find_groups
from tests.factories.builds import HEAD, make_transform, wait_until
from tests.factories.disks import filled, small_disk
from tests.factories.supervised import SupervisedStack, supervised_stack
from tests.factories.tiers import further

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
PARTS = ("web", "fork-server", "worker-quick", "worker-builds", "sweep")
MIB = 1024**2
LIMITS = {
    "TRIBUTARY_JOB_DISK_BYTES": str(40 * MIB),
    "TRIBUTARY_JOB_MEMORY_BYTES": str(768 * MIB),
    "TRIBUTARY_REPOSITORY_DATA_BYTES": str(60 * MIB),
    "TRIBUTARY_REPOSITORY_GIT_BYTES": str(3 * MIB),
}
GREEDY = """import os
folder = {folder!r}
for n in range(400):
    os.posix_fallocate(os.open(f"{{folder}}/{{n}}", os.O_CREAT | os.O_RDWR), 0, 4 * 1024**2)
"""
HOARD = """import os, time
for _ in range(20):
    if os.fork() == 0:
        hoard = bytearray(b"x") * {each}
        time.sleep(60)
        os._exit(0)
time.sleep(60)
"""


def hoard(home: Path, mebibytes: int) -> str:
    """The lines of a transform that fill the folder for its data files."""
    return (
        "import glob, os\n"
        f"folders = glob.glob('{home}/warehouse/shop/*/data/job-*')\n"
        "[folder] = [path for path in folders if os.access(path, os.W_OK)]\n"
        f"os.posix_fallocate(os.open(folder + '/hoard', os.O_CREAT | os.O_RDWR), 0, {mebibytes} * 1024**2)\n"
    )


def list_hoards(home: Path) -> list[Path]:
    return list(home.glob("warehouse/shop/*/data/*/hoard"))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedStack]:
    """An installation on a disk of its own, with small limits; the reserve is a twentieth of the disk."""
    home: Path = tmp_path_factory.mktemp("full") / "home"
    home.mkdir(mode=0o700)
    with small_disk(home, size="400m"), supervised_stack(home, **LIMITS) as running:
        running.make_repository()
        assert running.upload("/shop/raw", "a,b\n1,x\n").status_code == 201
        source = make_transform("out", inputs=["/shop/raw"], output="/shop/out", body="out.write_table(i0.arrow())")
        running.commit({"pipelines/out.py": HEAD + source})
        assert running.build("/shop/out")["state"] == "COMPLETED"
        yield running


def git(*arguments: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    who = ["-c", "user.name=Olek", "-c", "user.email=olek@example.org"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    return subprocess.run(
        ["git", *who, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=check
    )


def free_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


@contextlib.contextmanager
def leaving(folder: Path, room: int) -> Iterator[None]:
    """Take the disk's room but for so many bytes."""
    ballast = folder / ".ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free_bytes(folder) - room)
    try:
        yield
    finally:
        ballast.unlink()


def use_up_journal(home: Path) -> None:
    """Cut the database's journal off, which keeps its room: what is written next needs new room."""
    with contextlib.closing(sqlite3.connect(home / "db.sqlite3", timeout=30)) as connection:
        is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not is_busy


def test_full_disk_ends_nothing_and_everything_goes_on_when_there_is_room(stack: SupervisedStack) -> None:
    before = stack.rows("/shop/out")
    use_up_journal(stack.home)
    with filled(stack.home):
        assert stack.request("GET", "/builds").status_code == 200
        assert stack.rows("/shop/out") == before
        # A comparison is a read that writes down that it was asked for.
        dataset = stack.call("GET", "/datasets?path=/shop/out")["results"][0]
        compared = stack.request("GET", f"/datasets/{dataset['id']}/compare?from=master&to=master")
        refused = stack.upload("/shop/raw", "a,b\n2,x\n")
        for answer in (compared, refused):
            assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), answer.text
        old = stack.processes()
        for process in [stack.process_of(part) for part in PARTS]:
            process.kill()
        wait_until(lambda: not any(process.lives for process in old), seconds=60, every=0.01)
        # The supervisor cannot write what it sees; its children are there all the same.
        wait_until(lambda: len(stack.processes()) >= len(PARTS), seconds=60)
        wait_until(stack.is_up, seconds=60)
        assert stack.readiness()["disk"] == "low"
        assert stack.parts["supervisor"].poll() is None

        os.kill(stack.parts["supervisor"].pid, signal.SIGKILL)
        stack.parts.pop("supervisor").wait()
        stack.parts["supervisor"] = stack.spawn()
        wait_until(stack.is_up, seconds=60)

    wait_until(lambda: stack.works("worker") and stack.works("disk") and stack.is_warm(), seconds=60)
    assert stack.upload("/shop/raw", "a,b\n2,x\n").status_code == 201
    assert stack.build("/shop/out")["state"] == "COMPLETED"
    assert stack.rows("/shop/out") == [{"a": 2, "b": "x"}]
    status = stack.status()
    assert {part: status[part]["restarts"] for part in PARTS} == dict.fromkeys(PARTS, 0)


def test_below_the_reserve_work_waits_or_is_refused_and_small_writes_go_on(stack: SupervisedStack) -> None:
    with leaving(stack.home, 8 * MIB):
        refused = [
            stack.upload("/shop/raw", "a,b\n3,x\n"),
            stack.request(
                "POST",
                "/repositories/shop/commits",
                json={"branch": "master", "message": "m", "changes": [{"path": "a.txt", "content": "a"}]},
            ),
        ]
        for answer in refused:
            assert (answer.status_code, answer.json()["code"]) == (507, "storage_full"), answer.text
            assert "TRIBUTARY_RESERVE_BYTES" in answer.json()["detail"]
        stack.load("/shop/raw").append(pa.table({"a": [4], "b": ["y"]}))  # the client's file and our metadata are small
        build = stack.start_build("/shop/out", force=True)
        wait_until(lambda: "begins when there is room" in str(stack.call("GET", f"/builds/{build['id']}")), seconds=30)
        assert stack.readiness()["disk"] == "low"

    assert stack.wait_for_build(build["id"], seconds=60)["state"] == "COMPLETED"
    assert stack.upload("/shop/raw", "a,b\n5,x\n").status_code == 201


def test_push_is_refused_below_the_reserve_before_it_is_sent(stack: SupervisedStack, tmp_path: Path) -> None:
    url = f"http://admin:{stack.token}@127.0.0.1:{stack.port}/git/shop.git"
    git("clone", "-q", url, str(tmp_path / "clone"), cwd=tmp_path)
    (tmp_path / "clone" / "b.txt").write_text("b")
    git("add", "-A", cwd=tmp_path / "clone")
    git("commit", "-qm", "b", cwd=tmp_path / "clone")
    with leaving(stack.home, 8 * MIB):
        refused = git("push", "origin", "HEAD:refs/heads/b", cwd=tmp_path / "clone", check=False)
        assert refused.returncode != 0
        assert "in reserve" in refused.stderr
    assert git("push", "origin", "HEAD:refs/heads/b", cwd=tmp_path / "clone", check=False).returncode == 0


def test_job_that_fills_the_disk_is_ended_by_name_and_leaves_nothing(stack: SupervisedStack) -> None:
    greedy = make_transform(
        "greedy",
        inputs=["/shop/raw"],
        output="/shop/greedy",
        body="out.write_table(i0.arrow())\n" + GREEDY.format(folder=f"{stack.home}/warehouse/shop"),
    ).replace(repr(f"{stack.home}/warehouse/shop"), "find_folder()")
    finder = (
        "import glob, os\ndef find_folder():\n"
        f"    return [path for path, _, _ in os.walk({str(stack.home)!r}) if os.access(path, os.W_OK)][-1]\n\n\n"
    )
    stack.commit({"pipelines/greedy.py": HEAD + finder + greedy})
    before = free_bytes(stack.home)

    failed = stack.build("/shop/greedy", seconds=120)

    assert failed["state"] == "FAILED", failed
    job = failed["jobs"][0]
    assert job["error"]["code"] == "disk_quota", job
    assert "TRIBUTARY_JOB_DISK_BYTES" in job["reason"]
    wait_until(lambda: free_bytes(stack.home) > before - 20 * MIB, seconds=10)
    assert stack.open_transactions() == []
    (metadata,) = stack.query("SELECT metadata_location FROM catalog_table WHERE name = 'greedy'")
    assert json.loads(Path(metadata.removeprefix("file://")).read_text())["snapshots"] == [], "their files are gone"


def test_newest_large_job_ends_below_the_reserve(stack: SupervisedStack) -> None:
    """Within its quota it takes the last space of the disk; the jobs that need little go on, and so does everybody else."""
    slow = "import time\nfor _ in range(400):\n    time.sleep(0.1)\n"
    source = make_transform(
        "small", inputs=["/shop/raw"], output="/shop/small", body=f"out.write_table(i0.arrow())\n{slow}"
    )
    source += make_transform("large", inputs=["/shop/raw"], output="/shop/large", body=f"{hoard(stack.home, 20)}{slow}")
    stack.commit({"pipelines/hungry.py": HEAD + source})
    small = stack.start_build("/shop/small")
    stack.wait_for_job(small["id"], "RUNNING")
    with leaving(stack.home, 35 * MIB):
        failed = stack.build("/shop/large", seconds=60)

        assert failed["state"] == "FAILED", failed
        job = failed["jobs"][0]
        assert job["error"]["code"] == "disk_shortage", job
        assert "newest of the large jobs" in job["reason"]
        assert "TRIBUTARY_RESERVE_BYTES" in job["reason"]
        assert list_hoards(stack.home) == [], "its files are gone before the build says so"
        assert stack.upload("/shop/raw", "a,b\n7,x\n").status_code == 201
        assert stack.call("GET", f"/builds/{small['id']}")["state"] == "RUNNING"
    stack.call("POST", f"/builds/{small['id']}/cancel")
    assert stack.wait_for_build(small["id"], seconds=60)["state"] in ("ABORTED", "CANCELLED", "FAILED")


def test_attempts_that_do_not_commit_leave_no_files(stack: SupervisedStack) -> None:
    source = make_transform(
        "broken", inputs=["/shop/raw"], output="/shop/broken", body=f"{hoard(stack.home, 30)}raise KeyError('no')"
    )
    source += make_transform(
        "killed",
        inputs=["/shop/raw"],
        output="/shop/killed",
        body=f"{hoard(stack.home, 30)}import time\ntime.sleep(300)",
    )
    stack.commit({"pipelines/broken.py": HEAD + source})
    failed = stack.build("/shop/broken", seconds=60)
    assert "KeyError" in failed["jobs"][0]["error"]["message"], failed
    assert list_hoards(stack.home) == []

    build = stack.start_build("/shop/killed")
    wait_until(lambda: bool(list_hoards(stack.home)), seconds=60)
    stack.call("POST", f"/builds/{build['id']}/cancel")
    stack.wait_for_build(build["id"], seconds=60)
    assert list_hoards(stack.home) == []


@further("integration/builds/test_leftovers.py::test_lost_attempt_leaves_no_files")
def test_attempts_of_dead_workers_leave_no_files(stack: SupervisedStack) -> None:
    body = f"{hoard(stack.home, 30)}import time\ntime.sleep(300)"
    source = make_transform("orphan", inputs=["/shop/raw"], output="/shop/orphan", body=body)
    stack.commit({"pipelines/orphan.py": HEAD + source})
    build = stack.start_build("/shop/orphan")
    wait_until(lambda: bool(list_hoards(stack.home)), seconds=60)
    stack.process_of("worker-builds").kill()
    wait_until(lambda: list_hoards(stack.home) == [], seconds=60)
    stack.call("POST", f"/builds/{build['id']}/cancel")
    stack.wait_for_build(build["id"], seconds=60)


def test_job_that_shares_too_much_memory_among_processes_is_ended_as_a_whole_and_by_name(
    stack: SupervisedStack,
) -> None:
    body = HOARD.format(each=128 * MIB) + "out.write_table(i0.arrow())"
    stack.commit(
        {"pipelines/hoard.py": HEAD + make_transform("hoard", inputs=["/shop/raw"], output="/shop/hoard", body=body)}
    )

    failed = stack.build("/shop/hoard", seconds=120)

    assert failed["state"] == "FAILED", failed
    job = failed["jobs"][0]
    assert job["error"]["code"] == "memory_limit", job
    assert "held more than the 805,306,368 bytes of memory" in job["reason"]
    assert stack.open_transactions() == []
    # whoever sees to it has said so
    groups = find_groups()
    sandbox = stack.readiness()["details"]["sandbox"]
    assert sandbox.endswith(f"memory of jobs: {groups.name if groups else 'watched'}")


def test_repository_takes_no_more_git_objects_than_it_may(stack: SupervisedStack, tmp_path: Path) -> None:
    stack.call("POST", "/repositories", json={"name": "heavy", "template": "empty"}, expect=201)
    url = f"http://admin:{stack.token}@127.0.0.1:{stack.port}/git/heavy.git"
    git("clone", "-q", url, str(tmp_path / "clone"), cwd=tmp_path)
    (tmp_path / "clone" / "large").write_bytes(os.urandom(4 * MIB))
    git("add", "-A", cwd=tmp_path / "clone")
    git("commit", "-qm", "large", cwd=tmp_path / "clone")
    refused = git("push", "origin", "HEAD:refs/heads/large", cwd=tmp_path / "clone", check=False)
    assert refused.returncode != 0
    assert "TRIBUTARY_REPOSITORY_GIT_BYTES" in refused.stderr
    assert [branch["name"] for branch in stack.call("GET", "/repositories/heavy/branches")["results"]] == ["master"]

    git("reset", "-q", "--soft", "HEAD~1", cwd=tmp_path / "clone")
    (tmp_path / "clone" / "large").write_text("small")
    git("add", "-A", cwd=tmp_path / "clone")
    git("commit", "-qm", "small", cwd=tmp_path / "clone")
    assert git("push", "origin", "HEAD:refs/heads/small", cwd=tmp_path / "clone", check=False).returncode == 0


@further(
    "integration/catalog/test_catalog_object_store.py::test_what_lies_in_the_store_counts_for_the_quota_of_its_repository"
)
def test_repository_holds_no_more_data_than_it_may(stack: SupervisedStack) -> None:
    stack.call("POST", "/repositories", json={"name": "tank", "template": "empty"}, expect=201)
    source = make_transform(
        "water",
        output="/tank/water",
        body="import os\nout.write_table(pa.table({'a': [os.urandom(2**20) for _ in range(33)]}))",
    )
    files = {"pipeline.toml": '[pipeline]\npackages = ["pipelines"]\nfolders = ["/tank"]\n'}
    stack.commit({**files, "pipelines/water.py": HEAD + source}, repository="tank")
    assert stack.build("/tank/water")["state"] == "COMPLETED"

    def refusal() -> str:
        ended = stack.build("/tank/water", force=True)
        return str(ended["jobs"][0]["reason"]) if ended["state"] == "FAILED" else ""

    wait_until(lambda: "TRIBUTARY_REPOSITORY_DATA_BYTES" in refusal(), seconds=90, every=2)
    assert stack.upload("/shop/raw", "a,b\n6,x\n").status_code == 201, "another repository has its own"
    assert len(stack.rows("/tank/water")) == 33
