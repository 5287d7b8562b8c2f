"""Users who hold all that they may have: publications and builds of somebody else go on meanwhile."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, running_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
PUBLISHED_S, BUILT_S = 10, 30
"""Limits for another user, in seconds."""
LOOP = "while True:\n    pass\n"
CROSS_JOIN = """
SELECT count(*) FROM raw a, raw b, raw c, raw d, raw e WHERE a.number + b.number + c.number + d.number + e.number = -1
"""


@dataclass(frozen=True)
class Size:
    """How much an attacker asks for."""

    jobs: int
    repositories: int
    branches: int
    """Branches in each repository."""


QUICK, FULL = Size(jobs=5, repositories=4, branches=1), Size(jobs=24, repositories=4, branches=6)


@pytest.fixture
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Return an installation in which a job can take as long as a test."""
    home: Path = tmp_path_factory.mktemp("s") / "home"
    home.mkdir(mode=0o700)
    more = {"TRIBUTARY_JOB_SECONDS": "600", "TRIBUTARY_WEBHOOK_HOSTS": "127.0.0.1"}
    with running_stack(home, **more) as running:
        yield running


@pytest.fixture
def victim(stack: Stack) -> Stack:
    """Return the installation as a user with a published transform sees it."""
    user = stack.sign_in("olek", roles={})
    user.make_repository("calm")
    user.upload("/calm/raw", "number\n1\n")
    source = make_transform("copy", inputs=["/calm/raw"], output="/calm/copy", body="out.write_table(i0.arrow())")
    user.commit(
        {"pipeline.toml": pipeline("calm"), "pipelines/__init__.py": "", "pipelines/copy.py": HEAD + source},
        repository="calm",
    )
    return user


def pipeline(repository: str) -> str:
    return PIPELINE.replace("/shop", f"/{repository}")


def push(user: Stack, files: dict[str, str], *, repository: str, branch: str = "master") -> str:
    """Commit files and return the commit, without waiting for its publication."""
    changes = [{"path": path, "content": content} for path, content in files.items()]
    body = {"branch": branch, "message": "Change the pipeline", "changes": changes}
    sha: str = user.call("POST", f"/repositories/{repository}/commits", json=body, expect=201)["sha"]
    return sha


# --- what attackers do --------------------------------------------------------------------------------------------------


def hold_builds(user: Stack, name: str, size: Size) -> None:
    """Start builds whose jobs sleep."""
    repository = f"{name}-jobs"
    user.make_repository(repository)
    paths = [f"/{repository}/t{number}" for number in range(size.jobs)]
    source = (
        HEAD
        + "import time\n\n"
        + "".join(
            make_transform(f"t{number}", output=path, body="time.sleep(3600)") for number, path in enumerate(paths)
        )
    )
    files = {"pipeline.toml": pipeline(repository), "pipelines/__init__.py": "", "pipelines/sleep.py": source}
    user.commit(files, repository=repository)
    for path in paths:
        user.start_build(path)


def hold_imports(user: Stack, name: str, size: Size) -> None:
    """Push modules that never end to several branches of several repositories."""
    for number in range(size.repositories):
        repository = f"{name}-loops{number}"
        user.make_repository(repository)
        push(user, {"pipeline.toml": pipeline(repository), "pipelines/__init__.py": ""}, repository=repository)
        push_loops(user, repository, size.branches)


def push_loops(user: Stack, repository: str, branches: int) -> None:
    for branch in range(branches):
        body = {"name": f"b{branch}"}
        user.call("POST", f"/repositories/{repository}/branches", json=body, expect=201)
        push(user, {"pipelines/loop.py": f"{LOOP}# {branch}\n"}, repository=repository, branch=f"b{branch}")


def hold_queries_and_previews(user: Stack, name: str, _size: Size) -> None:
    """Ask for queries and previews that never end, as many as one user can have."""
    repository = f"{name}-asks"
    user.make_repository(repository)
    user.upload(f"/{repository}/raw", "number\n" + "".join(f"{number}\n" for number in range(1000)))
    for _ in range(2):
        user.call("POST", f"/repositories/{repository}/queries", json={"sql": CROSS_JOIN}, expect=202)
        ask_preview(user, repository, LOOP)


def ask_preview(user: Stack, repository: str, text: str) -> dict[str, Any]:
    body = {"file": "pipelines/copy.py", "files": [{"path": "pipelines/copy.py", "text": text}]}
    preview: dict[str, Any] = user.call("POST", f"/repositories/{repository}/previews", json=body, expect=202)
    return preview


def hold_all(user: Stack, name: str, size: Size) -> None:
    """Do all of it."""
    hold_queries_and_previews(user, name, size)
    hold_builds(user, name, size)
    hold_imports(user, name, size)


@contextlib.contextmanager
def dripping_receiver() -> Iterator[str]:
    """Answer every request with one byte in two seconds, without an end."""

    def drip(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while not ends.wait(2):
                connection.sendall(b"H")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    ends = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        ends.set()


@contextlib.contextmanager
def drip_at_deliveries(user: Stack, name: str) -> Iterator[None]:
    """Have many events delivered to receivers that never end their answers, again and again."""
    user.make_repository(name)
    with dripping_receiver() as url, repeating(lambda number: push(user, {"a.txt": f"{number}\n"}, repository=name)):
        for _ in range(20):
            body = {"url": url, "events": ["push"]}
            user.call("POST", f"/repositories/{name}/webhooks", json=body, expect=201)
        yield


@contextlib.contextmanager
def open_costly_pages(user: Stack, name: str) -> Iterator[None]:
    """Open files and changes that are small and take long to show, in 24 threads."""
    user.make_repository(name)
    push(user, {f"f{number}.{end}": text for number, (end, text) in enumerate(COSTLY)}, repository=name)
    changed = {f"f{number}.{end}": text.replace("a", "b") for number, (end, text) in enumerate(COSTLY)}
    sha = push(user, changed, repository=name)
    browser = user.open_browser(name)
    places = [f"blob/master/f{number}.{end}" for number, (end, _) in enumerate(COSTLY)] + [f"commit/{sha}"]

    def open_page(number: int) -> None:
        place = places[number % len(places)]
        browser.get(f"http://127.0.0.1:{user.port}/r/{name}/{place}", timeout=120)

    with repeating(open_page, threads=24):
        yield


COSTLY = (
    ("py", " \n" * 50_000 + "a"),
    ("txt", ("a" + "x" * 1_978 + "\n") * 200),
    ("csv", "number,text\n" + "".join(f"{number},a{number}\n" for number in range(9_900))),
    ("ini", "[a\n" * 30_000),
    ("xml", "<a " * 30_000),
    ("yaml", "a: &a\n" * 15_000),
)


@contextlib.contextmanager
def repeating(act: Callable[[int], object], *, threads: int = 1) -> Iterator[None]:
    """Do something again and again during the block, whatever comes of it."""
    ends = threading.Event()

    def repeat(first: int) -> None:
        number = first
        while not ends.is_set():
            with contextlib.suppress(requests.RequestException, AssertionError):
                act(number)
            number += 1

    with ThreadPoolExecutor(threads) as pool:
        for first in range(threads):
            pool.submit(repeat, first)
        try:
            yield
        finally:
            ends.set()


@contextlib.contextmanager
def hold_by(stack: Stack, *names: str, hold: Callable[[Stack, str, Size], None]) -> Iterator[None]:
    """Let users hold what they may have; it lasts until the end of the block."""
    for name in names:
        hold(stack.sign_in(name, roles={}), name, FULL)
    yield
    check_held(stack)


@contextlib.contextmanager
def hold_victims_repository(stack: Stack) -> Iterator[None]:
    """Let a writer of the victim's repository push modules that never end to its branches."""
    user = stack.sign_in("mallory", roles={})
    stack.call("POST", "/repositories/calm/members", json={"user": "mallory", "role": "writer"})
    push_loops(user, "calm", FULL.repositories * FULL.branches)
    yield
    check_held(stack)


def check_held(stack: Stack) -> None:
    """Check that the attack has not ended before the last measurement."""
    jobs = "SELECT count(*) FROM builds_job WHERE state = 'RUNNING'"
    imports = "SELECT count(*) FROM repositories_publication WHERE status = 'pending'"
    assert stack.query(jobs)[0] or stack.query(imports)[0]


ATTACKS: dict[str, Callable[[Stack], contextlib.AbstractContextManager[None]]] = {
    "builds of one user": lambda stack: hold_by(stack, "mallory", hold=hold_builds),
    "builds of two users": lambda stack: hold_by(stack, "mallory", "trudy", hold=hold_builds),
    "imports of one user": lambda stack: hold_by(stack, "mallory", hold=hold_imports),
    "imports of two users": lambda stack: hold_by(stack, "mallory", "trudy", hold=hold_imports),
    "imports in the same repository": hold_victims_repository,
    "all of two users": lambda stack: hold_by(stack, "mallory", "trudy", hold=hold_all),
    "dripping receivers": lambda stack: drip_at_deliveries(stack.sign_in("mallory", roles={}), "mallory"),
    "costly pages": lambda stack: open_costly_pages(stack.sign_in("mallory", roles={}), "mallory"),
}


# --- what others have of it ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Waited:
    """Seconds from a push to its publication, and from the start of a build to its end."""

    published: float
    built: float


def measure(victim: Stack) -> Waited:
    """Push a change and build it."""
    began = time.monotonic()
    comment = {"notes.txt": f"{began}\n"}
    sha = push(victim, comment, repository="calm")
    victim.wait(lambda: is_published(victim, sha), seconds=PUBLISHED_S)
    published = time.monotonic()
    build = victim.build("/calm/copy", force=True, seconds=BUILT_S)
    assert build["state"] == "COMPLETED", build
    return Waited(published - began, time.monotonic() - published)


def is_published(user: Stack, sha: str) -> bool:
    commit = user.call("GET", f"/repositories/calm/commits/{sha}")
    status: str = commit["published"]["status"]
    return status == "published"


def count_running(stack: Stack, user: str) -> int:
    """Return the number of jobs of a user that run."""
    return int(
        stack.query(
            "SELECT count(*) FROM builds_job JOIN builds_build ON builds_build.id = builds_job.build_id "
            "JOIN accounts_user ON accounts_user.id = builds_build.by_id "
            f"WHERE builds_job.state = 'RUNNING' AND accounts_user.username = '{user}'"
        )[0]
    )


def test_a_user_who_holds_all_slots_delays_nobody_else(stack: Stack, victim: Stack) -> None:
    hold_all(stack.sign_in("mallory", roles={}), "mallory", QUICK)
    stack.wait(lambda: count_running(stack, "mallory") >= 3, seconds=30)
    waited = [measure(victim) for _ in range(2)]
    query = victim.call("POST", "/repositories/calm/queries", json={"sql": "SELECT * FROM raw"}, expect=202)
    path = f"/repositories/calm/queries/{query['id']}"
    victim.wait(lambda: victim.call("GET", path)["state"] == "ready", seconds=BUILT_S)
    assert count_running(stack, "mallory") == 3
    print(*waited)


@pytest.mark.soak
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_delays_nobody_else(stack: Stack, victim: Stack, attack: str) -> None:
    with ATTACKS[attack](stack):
        waited = [measure(victim) for _ in range(6)]
    published, built = max(each.published for each in waited), max(each.built for each in waited)
    print(f"| {attack} | {published:.1f} s | {built:.1f} s |")
