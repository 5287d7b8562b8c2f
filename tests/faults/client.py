"""A client of the REST API that never gives up: a request without a final answer is sent again with its key."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import requests

from tests.faults.barrier import Barrier

PATIENCE_S = 120
NOT_FINAL = frozenset({429, 500, 502, 503, 504, 507})
T = TypeVar("T")


@dataclass(frozen=True)
class Client:
    """Somebody's token at an installation."""

    api: str
    token: str
    barrier: Barrier = field(default_factory=Barrier)
    """What every request has to pass."""
    answers: Counter[int] = field(default_factory=Counter)
    """How often each status came; 0 where no answer did."""
    silences: list[str] = field(default_factory=list)
    """What was asked that had no answer, and how that showed."""

    def get(self, path: str) -> Any:
        """Read; the JSON of a 200."""
        answer = self.send("GET", path)
        assert answer.status_code == 200, f"GET {path}: {answer.status_code} {answer.text}"
        return answer.json()

    def post(self, path: str, **more: Any) -> requests.Response:
        """Write once, however often it has to be said."""
        return self.send("POST", path, key=str(uuid4()), **more)

    def send(self, method: str, path: str, *, key: str = "", **more: Any) -> requests.Response:
        """Repeat until the answer is final: anything but silence, a 5xx or a 429."""
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Idempotency-Key": key} if key else {})
        with self.barrier.passing():
            return self._repeat(method, path, headers=headers, **more)

    def _repeat(self, method: str, path: str, **more: Any) -> requests.Response:
        deadline = time.monotonic() + PATIENCE_S
        seen = "nothing"
        while time.monotonic() < deadline:
            try:
                answer = requests.request(method, f"{self.api}{path}", timeout=30, **more)
            except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
                self.answers[0] += 1
                self.silences.append(f"{time.strftime('%X')} {method} {path}: {error}")
                seen = str(error)
            else:
                self.answers[answer.status_code] += 1
                if answer.status_code not in NOT_FINAL and b"idempotency_running" not in answer.content:
                    return answer
                seen = f"{answer.status_code} {answer.text[:500]}"
            time.sleep(0.3)
        raise AssertionError(f"{method} {path}: no final answer in {PATIENCE_S} s; the last was {seen}")

    def until_final(self, read: Callable[[], T]) -> T:
        """Read in another way than by this API, however often it has to be tried."""
        with self.barrier.passing():
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    return read()
                except Exception:  # what a client meets under faults has no common class; the last one is raised
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.3)
