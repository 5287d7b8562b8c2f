"""A five-job build with one process killed at a random moment, again and again: terminal in a minute, nothing half-done."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.factories.builds import HEAD, Stack, make_transform, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.soak, pytest.mark.timeout(1800)]
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "20"))
KINDS = ("builds", "quick", "fork", "job", "sweep")


def test_builds_survive_a_kill_at_any_moment(stack: Stack) -> None:
    seed = int(os.environ.get("SOAK_SEED", str(random.randrange(10**6))))
    print(f"SOAK_SEED={seed}")
    dice = random.Random(seed)
    body = "import time\nout.write_table(i0.arrow())\ntime.sleep(0.4)"
    paths = ["/shop/raw", *(f"/shop/soak/s{number}" for number in range(5))]
    source = HEAD + "".join(
        make_transform(f"s{number}", inputs=[paths[number]], output=paths[number + 1], body=body) for number in range(5)
    )
    stack.commit({"pipelines/soak.py": source})
    for _ in range(ROUNDS):
        run_round(stack, dice, paths[-1])


def run_round(stack: Stack, dice: random.Random, target: str) -> None:
    started = stack.start_build(target, upstream=True, force=True)
    time.sleep(dice.uniform(0, 5))
    kind = dice.choice(KINDS)
    killed = time.monotonic()
    kill(stack, kind)
    build = stack.wait_for_build(started["id"], seconds=60)
    took = time.monotonic() - killed
    states = [job["state"] for job in build["jobs"]]
    print(f"build {build['id']}: killed {kind}, {build['state']} after {took:.1f} s, {states}")
    assert took < 60
    assert build["state"] in {"COMPLETED", "FAILED"}
    assert stack.open_transactions() == []
    twice = stack.query(
        f"SELECT dataset_id FROM datasets_transaction WHERE build_id = {build['id']} AND state = 'COMMITTED' "  # noqa: S608
        "GROUP BY dataset_id HAVING count(*) > 1"
    )
    assert twice == []
    if build["state"] == "FAILED":
        again = stack.call("POST", f"/builds/{build['id']}/retry", expect=202)
        assert stack.wait_for_build(again["id"], seconds=60)["state"] == "COMPLETED"
    assert len(stack.rows(target)) == 2
    wait_until(stack.is_warm, seconds=60)


def kill(stack: Stack, kind: str) -> None:
    """kill -9, and start the part again as the supervisor would."""
    if kind == "job":
        stack.kill_jobs()
        return
    stack.kill(kind)
    if kind == "fork":
        (stack.home / "run" / "fork.sock").unlink(missing_ok=True)
    time.sleep(1)
    stack.start_part(kind)
