"""A Redis that is stopped with all it holds, and messages that come twice: requests are answered, jobs take effect once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.factories.broker import Redis, ringing, running_redis
from tests.factories.builds import HEAD, Stack, make_transform, running_stack
from tests.factories.tiers import further
from webapp.builds.services.queue import RESOLVE_TASK, RUN_TASK
from webapp.runtime import doorbell

pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(600),
    further("integration/builds/test_crashes.py::test_lost_messages_are_rung_again"),
]
PATIENCE_S = 20
"""Generous: a request that meets an absent broker answers in about a second."""
OUTPUTS = 4


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, redis: Redis) -> Iterator[Stack]:
    home: Path = tmp_path_factory.mktemp("redis-stack") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home, CELERY_BROKER_URL=redis.url) as running:
        running.make_repository()
        answer = running.upload("/shop/raw", "a,b\n1,x\n2,y\n")
        assert answer.status_code == 201, answer.text
        body = "out.write_table(i0.arrow())"
        running.commit(
            {
                "pipelines/lost.py": HEAD
                + "".join(
                    make_transform(f"t{n}", inputs=["/shop/raw"], output=f"/shop/t{n}", body=body)
                    for n in range(OUTPUTS)
                )
            }
        )
        yield running


def ask(stack: Stack, number: int, key: str) -> requests.Response:
    started = time.monotonic()
    answer = requests.post(
        f"{stack.url}/builds",
        json={"branch": "master", "targets": [f"/shop/t{number % OUTPUTS}"], "force": True},
        headers={"Authorization": f"Bearer {stack.token}", "Idempotency-Key": key},
        timeout=60,
    )
    assert answer.status_code == 202, answer.text
    assert time.monotonic() - started < PATIENCE_S
    return answer


def check_effects(stack: Stack, builds: list[int]) -> None:
    """Each build ended, and each wrote its output once."""
    ended = [stack.wait_for_build(build, seconds=180) for build in builds]
    assert {build["state"] for build in ended} == {"COMPLETED"}
    chosen = ", ".join(map(str, builds))
    written = stack.query(
        f"SELECT build_id FROM datasets_transaction WHERE build_id IN ({chosen}) AND state = 'COMMITTED'"
    )
    assert sorted(written) == sorted(builds)
    assert stack.open_transactions() == []


def test_redis_is_stopped_and_emptied_in_the_middle_of_twenty_builds(stack: Stack, redis: Redis) -> None:
    keys = [uuid.uuid4().hex for _ in range(20)]
    with ThreadPoolExecutor(4) as pool:
        first = list(pool.map(lambda n: ask(stack, n, keys[n]), range(10)))
        redis.stop()
        second = list(pool.map(lambda n: ask(stack, n, keys[n]), range(10, 20)))
    again = ask(stack, 19, keys[19])
    assert (again.json(), again.headers["Idempotent-Replay"]) == (second[-1].json(), "true")
    assert requests.get(f"http://127.0.0.1:{stack.port}/readyz", timeout=60).json()["broker"] == "down"
    redis.start()
    builds = [answer.json()["id"] for answer in (*first, *second)]
    assert len(set(builds)) == 20
    check_effects(stack, builds)
    made = f"SELECT count(*) FROM builds_build WHERE id BETWEEN {min(builds)} AND {max(builds)}"
    assert stack.query(made) == [20]


def test_every_message_comes_twice_more(stack: Stack, redis: Redis) -> None:
    builds = [ask(stack, n, uuid.uuid4().hex).json()["id"] for n in range(8)]
    chosen = ", ".join(map(str, builds))
    with ringing(redis.url):
        for _ in range(2):
            jobs: list[Any] = stack.query(f"SELECT id FROM builds_job WHERE build_id IN ({chosen})")
            assert all(doorbell.ring(RESOLVE_TASK, queue="quick", id=build) for build in builds)
            assert all(doorbell.ring(RUN_TASK, queue="builds", id=job) for job in jobs)
    check_effects(stack, builds)
