"""One web process beside slow clients, and before more users than it can answer.

    make bench-crowds          or    python -m tests.bench.crowds [--slow 200] [--users 200] [--seconds 10]

Prints the median answer of a page without and with slow clients (goal: within 2x, also in the first second, and no more
of the processor's time for each answer), then what many users at once are answered, how long health takes meanwhile, and
how soon one user is answered as before.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests

from tests.factories.crowds import measure_processor, slow_clients
from tests.integration.repositories.live import LiveServer

PAGE, HEALTH = "/login", "/healthz"
SAMPLES = 60
GOAL_TIMES = 2.0
GOAL_HEALTH_S, GOAL_RECOVERY_S = 1.0, 10.0


def main() -> None:
    """Start a web process, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slow", type=int, default=200)
    parser.add_argument("--users", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = LiveServer.start(Path(folder) / "home")
        try:
            show_slow(server, clients=options.slow)
            show_users(server, users=options.users, seconds=options.seconds)
        finally:
            server.close()


def show_slow(server: LiveServer, *, clients: int) -> None:
    """Print what slow clients cost the others."""
    sample(server, SAMPLES)
    quiet, quiet_s = sample(server, SAMPLES), measure_processor(server.pid, lambda: sample(server, SAMPLES))
    with slow_clients(server.port, clients):
        at_once = sample(server, SAMPLES // 3)
        later, later_s = sample(server, SAMPLES), measure_processor(server.pid, lambda: sample(server, SAMPLES))
    print(f"{PAGE} without slow clients: {1000 * quiet:.1f} ms, {1000 * quiet_s / SAMPLES:.1f} ms of the processor")
    for when, ratio in (("right after they connect", at_once / quiet), ("later", later / quiet)):
        print(f"  beside {clients} slow clients, {when}: {ratio:.2f}x  {judge(ratio, GOAL_TIMES)}")
    ratio = later_s / quiet_s
    print(f"  processor's time for each answer: {ratio:.2f}x  {judge(ratio, GOAL_TIMES)}")


def show_users(server: LiveServer, *, users: int, seconds: float) -> None:
    """Print what more users than can be answered get."""
    quiet = sample(server, SAMPLES)
    over = threading.Event()
    with ThreadPoolExecutor(users + 1) as pool:
        health = pool.submit(ask_again_and_again, server, HEALTH, over)
        asking = [pool.submit(ask_again_and_again, server, PAGE, over) for _ in range(users)]
        time.sleep(seconds)
        over.set()
        answers = [answer for user in asking for answer in user.result()]
        slowest = max(took for _status, took in health.result())
    ended = time.perf_counter()
    while sample(server, 5) > GOAL_TIMES * quiet and time.perf_counter() - ended < 60:
        continue
    recovery = time.perf_counter() - ended
    counts = Counter(status for status, _took in answers)
    print(f"{users} users on {PAGE} for {seconds:g} s: {dict(sorted(counts.items()))}")
    print(f"  answers but 200, 429 and 503: {sum(counts.values()) - counts[200] - counts[429] - counts[503]}")
    print(f"  slowest answer of {HEALTH}: {slowest:.2f} s  {judge(slowest, GOAL_HEALTH_S)}")
    print(f"  one user is answered as before after {recovery:.1f} s  {judge(recovery, GOAL_RECOVERY_S)}")


def judge(value: float, goal: float) -> str:
    """Whether a goal is met."""
    return f"(goal {goal:g}: {'met' if value <= goal else 'missed'})"


def sample(server: LiveServer, number: int) -> float:
    """The median of answers to one user, in seconds."""
    return statistics.median(ask(server, PAGE)[1] for _ in range(number))


def ask(server: LiveServer, path: str) -> tuple[int, float]:
    """Status and seconds of one answer; 0 where there was none."""
    began = time.perf_counter()
    try:
        status = requests.get(f"http://127.0.0.1:{server.port}{path}", timeout=60).status_code
    except requests.RequestException:
        status = 0
    return status, time.perf_counter() - began


def ask_again_and_again(server: LiveServer, path: str, over: threading.Event) -> list[tuple[int, float]]:
    """The answers to a user who asks at once when one has come, as `Retry-After` says where it does not."""
    answers = []
    while not over.is_set():
        answers.append(ask(server, path))
        if answers[-1][0] in (429, 503):
            over.wait(2)
    return answers


if __name__ == "__main__":
    main()
