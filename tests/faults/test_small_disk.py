"""A really small disk, and jobs within their quotas that fill it again and again: everybody else goes on writing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from tests.factories.builds import HEAD, ROOT, make_transform, wait_until
from tests.factories.disks import small_disk
from tests.factories.supervised import SupervisedStack, supervised_stack
from tests.factories.tiers import further

pytestmark = pytest.mark.integration
SECONDS = 90
LONGEST_S = 20
"""Maximum seconds without an accepted upload."""
FILLING = """import glob, os, time
folders = glob.glob('{home}/warehouse/shop/*/data/job-*')
[folder] = [path for path in folders if os.access(path, os.W_OK)]
with open(folder + '/hoard', 'wb') as file:
    for _ in range(300):
        file.write(bytes(1024**2))
        file.flush()
        time.sleep({pause})
time.sleep(60)
"""


@further("integration/runtime/test_full_home.py::test_newest_large_job_ends_below_the_reserve")
@pytest.mark.timeout(900)
def test_jobs_that_fill_a_small_disk_stop_nobody(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with small_disk(home, size="300m"), supervised_stack(home, TRIBUTARY_REPOSITORY_DATA_BYTES="0") as stack:
        stack.make_repository()
        assert stack.upload("/shop/raw", "a,b\n1,x\n").status_code == 201
        pauses = {"quick": 0, "slow": 0.02, "slower": 0.1}
        source = "".join(
            make_transform(name, output=f"/shop/{name}", body=FILLING.format(home=home, pause=pause))
            for name, pause in pauses.items()
        )
        stack.commit({"pipelines/filling.py": HEAD + source})
        builds = [stack.start_build(f"/shop/{name}")["id"] for name in pauses]
        longest = write_meanwhile(stack, builds)
        print(f"no upload was accepted for {longest:.1f} s at most")
        assert longest < LONGEST_S
        for build in builds:
            stack.request("POST", f"/builds/{build}/cancel")
            stack.wait_for_build(build, seconds=120)
        wait_until(lambda: not list(home.glob("warehouse/shop/*/data/*/hoard")), seconds=60)
        wait_until(lambda: stack.works("disk"), seconds=60)
        wait_until(lambda: not [*home.glob("audit-head.*"), *home.glob(".*.tmp")], seconds=10)
        command = [sys.executable, "manage.py", "fsck"]
        result = subprocess.run(command, cwd=ROOT, env=stack.environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def write_meanwhile(stack: SupervisedStack, builds: list[int]) -> float:
    """Upload small files for a while, and start ended builds again; return the longest time without an accepted upload."""
    begun = written = time.monotonic()
    longest = 0.0
    number = shortages = 0
    while (now := time.monotonic()) < begun + SECONDS:
        number += 1
        try:
            taken = stack.upload("/shop/raw", f"a,b\n{number},x\n").status_code == 201
        except requests.RequestException:
            taken = False
        if taken:
            written = time.monotonic()
        longest = max(longest, time.monotonic() - written, now - written)
        for place, build in enumerate(builds):
            status = stack.request("GET", f"/builds/{build}").json()
            if status.get("state") in {"FAILED", "ABORTED", "COMPLETED"}:
                shortages += "disk_shortage" in str(status)
                again = stack.request("POST", "/builds", json={"branch": "master", "targets": status["targets"]})
                builds[place] = again.json()["id"] if again.status_code == 202 else build
        time.sleep(0.2)
    print(f"{shortages} jobs were ended for the disk; its size is {os.statvfs(stack.home).f_blocks * 4096:,} bytes")
    assert shortages > 0
    return longest
