"""Whoever can write to the broker has no code run by it, and starts, ends or changes nothing: messages are doorbells."""

from __future__ import annotations

import base64
import json
import pickle
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import current_app

from tests.factories.broker import Redis, running_redis
from tests.factories.builds import HEAD, Stack, make_transform, running_stack, wait_until
from webapp.builds.services.publication import TASK as PUBLISH_TASK
from webapp.builds.services.queue import RESOLVE_TASK, RUN_TASK
from webapp.runtime.doorbell import QUEUES

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]
ROWS = {
    "builds": "SELECT id || ' ' || state FROM builds_build",
    "jobs": "SELECT id || ' ' || state || ' ' || attempt FROM builds_job",
    "JobSpecs": "SELECT branch || ' ' || sha || ' ' || function FROM builds_publishedspec",
    "publications": "SELECT branch || ' ' || sha || ' ' || status FROM repositories_publication",
    "transactions": "SELECT id || ' ' || state FROM datasets_transaction",
    "people": "SELECT username FROM accounts_user",
}
"""What says what is to be done and what was."""
BUILTINS = ("chain", "chord", "chord_unlock", "chunks", "group", "map", "starmap", "accumulate", "backend_cleanup")
UNKNOWN = ("os.system", "subprocess.run", "builtins.eval", "webapp.builds.services.cancel_build", "", "a" * 100_000)
HOSTILE_IDS: tuple[object, ...] = (
    0, -1, 2**70, 1.5, True, None, "", "1 OR 1=1", "x'; DROP TABLE builds_job; --", "../../etc/passwd", "\0", "\ud800",
    [1], {"pk__gte": 0}, {"__class__": "os.system"}, "9" * 10_000,
)  # fmt: skip
BOMB_BYTES = 50 * 2**20


class _Canary:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with running_redis(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, broker: Redis) -> Iterator[Stack]:
    """An installation with a built table, a branch whose code master does not have, and a build that was cancelled."""
    home: Path = tmp_path_factory.mktemp("forged") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home, CELERY_BROKER_URL=broker.url) as running:
        running.make_repository()
        assert running.upload("/shop/raw", "a,b\n1,x\n2,y\n").status_code == 201
        yield running


def forge(name: str, kwargs: object = None, *, body: object = None, **more: Any) -> dict[str, Any]:
    """A message as Celery writes it, with a part of its own."""
    identity = str(uuid.uuid4())
    content = json.dumps([[], kwargs or {}, None] if body is None else body).encode()
    message: dict[str, Any] = {
        "body": base64.b64encode(content).decode(),
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {"lang": "py", "task": name, "id": identity, "root_id": identity, "argsrepr": "", "kwargsrepr": ""},
        "properties": {
            "correlation_id": identity,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": "quick"},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    message["headers"] |= more.pop("headers", {})
    message["properties"] |= more.pop("properties", {})
    return message | {key.replace("_", "-"): value for key, value in more.items()}


def list_forged(canary: Path, ids: dict[str, Any]) -> Iterator[bytes]:
    """Every kind of forged message."""
    pickled = base64.b64encode(pickle.dumps(_Canary(canary))).decode()
    kinds = (
        "application/x-python-serialize",
        "application/x-pickle",
        "pickle",
        "application/x-yaml",
        "text/plain",
        "a/b",
    )
    forged = [forge(RUN_TASK, body=[[], {}, None], content_type=kind) | {"body": pickled} for kind in kinds]
    forged.append(forge(RUN_TASK, content_encoding="binary") | {"body": pickled})
    forged += [forge(name, {"id": 1}) for name in UNKNOWN]
    touch = {"task": "os.system", "args": [f"touch {canary}"], "kwargs": {}, "options": {}, "subtask_type": None}
    forged += [forge(f"celery.{name}", body=[[touch, [[f"touch {canary}"]]], {}, None]) for name in BUILTINS]
    embedded = {"callbacks": [touch], "errbacks": [touch], "chain": [touch], "chord": touch}
    names = sorted(name for name in current_app.tasks if name.startswith("webapp."))
    forged += [forge(name, body=[[], {"id": 0}, embedded]) for name in names]
    forged += [forge(name, {"id": hostile}) for name in names for hostile in HOSTILE_IDS]
    forged += [
        forge(name, body=body) for name in names for body in ([], {}, 1, [[1], {}, None], [{}, [], None], [[], {}, 1])
    ]
    forged += [
        forge(PUBLISH_TASK, {"repository": "shop", "branch": branch, "sha": sha})
        for branch in ("master", "other", "nobody's", "../x", "refs/heads/master", None, 1)
        for sha in (ids["sha"], ids["sha"][:7], "other", "HEAD", "--upload-pack=x", "", None, 1, {})
    ]
    forged += [forge(RESOLVE_TASK, {"id": ids["build"]}), forge(RUN_TASK, {"id": ids["job"]})]
    headers: tuple[dict[str, Any], ...] = (
        {"eta": "never"}, {"expires": "soon"}, {"retries": "x"}, {"timelimit": "x"}, {"timelimit": [1]}, {"id": None},
        {"task": None}, {"task": {"a": 1}}, {"compression": "application/x-gzip"}, {"compression": "none of them"},
        {"origin": 1}, {"root_id": {}}, {"shadow": "\x1b[31m\nforged line"}, {"group": {}}, {"replaced_task_nesting": "x"},
    )  # fmt: skip
    forged += [forge(RUN_TASK, headers=each) for each in headers]
    bomb = base64.b64encode(zlib.compress(b"0" * BOMB_BYTES)).decode()
    forged.append(forge(RUN_TASK, headers={"compression": "application/x-gzip"}) | {"body": bomb})
    properties: tuple[dict[str, Any], ...] = (
        {"body_encoding": "rot13"}, {"delivery_info": None}, {"delivery_info": {}}, {"delivery_tag": None},
        {"reply_to": "quick"}, {"priority": "x"}, {"correlation_id": None},
    )  # fmt: skip
    forged += [forge(RUN_TASK, properties=each) for each in properties]
    forged += [
        forge(RUN_TASK) | {name: value} for name in ("headers", "properties", "body") for value in (None, 1, [], "x")
    ]
    yield from (json.dumps(each).encode() for each in forged)
    yield from (
        b"",
        b"no message",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"1",
        b'{"body": ',
        b"[" * 100_000,
        pickle.dumps(_Canary(canary)),
    )


def list_ended(stack: Stack) -> list[str]:
    """The parts that have ended: nobody starts them again here."""
    return [name for name, part in stack.parts.items() if part.poll() is not None]


def read_rows(stack: Stack) -> dict[str, list[str]]:
    return {what: sorted(stack.query(question)) for what, question in ROWS.items()}


def test_forged_messages_do_nothing_and_the_workers_live(stack: Stack, broker: Redis, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    body = "out.write_table(i0.arrow())"
    source = HEAD + make_transform("one", inputs=["/shop/raw"], output="/shop/one", body=body)
    stack.commit({"pipelines/one.py": source})
    built = stack.build("/shop/one")
    stack.call("POST", "/repositories/shop/branches", json={"name": "other", "start_point": "master"}, expect=201)
    other = stack.commit({"pipelines/two.py": source.replace("one", "two")}, branch="other")
    assert (built["state"], other["published"]["status"]) == ("COMPLETED", "published")
    before = read_rows(stack)

    client = redis.Redis.from_url(broker.url)
    ids = {"sha": other["sha"], "build": built["id"], "job": built["jobs"][0]["id"]}
    for message in list_forged(canary, ids):
        for queue in QUEUES:
            client.lpush(queue, message)
    wait_until(lambda: bool(list_ended(stack)) or not any(client.llen(queue) for queue in QUEUES), seconds=120)
    assert list_ended(stack) == []
    after = read_rows(stack)

    again = stack.build("/shop/one", force=True, seconds=120)
    assert again["state"] == "COMPLETED"
    assert list_ended(stack) == []
    assert not canary.exists()
    assert after == before
