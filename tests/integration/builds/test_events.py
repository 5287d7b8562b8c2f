"""Event streams from the real server: stored lines, live lines, resume, end, and who may listen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from typing import Any

import pytest
import requests

from tests.factories.builds import HEAD, PASSWORD, Stack, make_transform
from webapp.builds.urls import page_urls

READERS = "a-password-of-readers-1"
SEEN = "print('made with a token')\nout.write_table(i0.arrow())"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def browser(stack: Stack) -> requests.Session:
    """Return a signed-in browser session."""
    return sign_in(stack, "admin", PASSWORD)


def sign_in(stack: Stack, name: str, password: str) -> requests.Session:
    session = requests.Session()
    base = stack.url.removesuffix("/api/v1")
    page = session.get(f"{base}/login", timeout=10)
    token = page.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    answer = session.post(f"{base}/login", data=form, timeout=10, allow_redirects=False)
    assert answer.status_code == 302, answer.text
    return session


def read_events(answer: requests.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield (event, id, data) as they come."""
    event, event_id, data = "message", "", ""
    for line in answer.iter_lines(chunk_size=1, decode_unicode=True):
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("id: "):
            event_id = line.removeprefix("id: ")
        elif line.startswith("data: "):
            data = line.removeprefix("data: ")
        elif not line and data:
            yield event, event_id, json.loads(data)
            event, data = "message", ""


def follow(stack: Stack, session: requests.Session, path: str, **headers: str) -> requests.Response:
    return session.get(stack.url.removesuffix("/api/v1") + path, stream=True, timeout=30, headers=headers)


def test_log_is_live_and_resumes_exactly(stack: Stack, browser: requests.Session) -> None:
    body = "import time\nfor n in range(6):\n    print('step', n)\n    time.sleep(0.4)\nout.write_table(i0.arrow())"
    stack.commit(
        {"pipelines/live.py": HEAD + make_transform("live", inputs=["/shop/raw"], output="/shop/live", body=body)}
    )
    build = stack.start_build("/shop/live")
    job = stack.wait_for_job(build["id"], "RUNNING")
    seen: list[tuple[float, str]] = []
    last_id = ""
    with follow(stack, browser, f"/events/jobs/{job['id']}/log") as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        for event, event_id, data in read_events(answer):
            if event == "line":
                seen += [(time.monotonic(), line["text"]) for line in data]
                last_id = event_id
            if any(text == "step 3" for _, text in seen):
                break
    first = next(at for at, text in seen if text == "step 0")
    third = next(at for at, text in seen if text == "step 3")
    assert third - first > 0.6
    rest: list[str] = []
    with follow(stack, browser, f"/events/jobs/{job['id']}/log", **{"Last-Event-ID": last_id}) as answer:
        for event, _, data in read_events(answer):
            if event == "done":
                assert data == {"reason": "completed", "code": 0}
                break
            rest += [line["text"] for line in data]
    whole = [text for _, text in seen] + rest
    stored = [line["text"] for line in stack.call("GET", f"/jobs/{job['id']}/log")["lines"]]
    assert whole == stored
    with follow(stack, browser, f"/events/jobs/{job['id']}/log?after={len(stored) - 1}") as answer:
        events = list(read_events(answer))
    assert [line["text"] for line in events[0][2]] == stored[-1:]


def test_build_stream_tells_changes_and_ends(stack: Stack, browser: requests.Session) -> None:
    body = "import time\ntime.sleep(1)\nout.write_table(i0.arrow())"
    stack.commit(
        {"pipelines/tell.py": HEAD + make_transform("tell", inputs=["/shop/raw"], output="/shop/tell", body=body)}
    )
    build = stack.start_build("/shop/tell")
    with follow(stack, browser, f"/events/builds/{build['id']}") as answer:
        events = list(read_events(answer))
    assert events[-1][0] == "done"
    assert events[-1][2] == {"state": "COMPLETED"}
    states = [data["jobs"][0]["state"] for event, _, data in events if event == "change" and data["jobs"]]
    assert "RUNNING" in states
    assert states[-1] == "COMPLETED"


def test_a_token_may_follow_too(stack: Stack) -> None:
    stack.commit(
        {"pipelines/seen.py": HEAD + make_transform("seen", inputs=["/shop/raw"], output="/shop/seen", body=SEEN)}
    )
    build = stack.build("/shop/seen")
    (job,) = build["jobs"]
    program = requests.Session()
    program.headers["Authorization"] = f"Bearer {stack.token}"
    with follow(stack, program, f"/events/jobs/{job['id']}/log") as answer:
        events = list(read_events(answer))
    assert "made with a token" in [line["text"] for line in events[0][2]]
    assert events[-1][2] == {"reason": "completed", "code": 0}
    for event_id in ("9" * 5000, "\xb2", "-1", str(2**63)):
        with follow(stack, program, f"/events/jobs/{job['id']}/log", **{"Last-Event-ID": event_id}) as answer:
            assert (answer.status_code, [event for event, *_ in read_events(answer)][-1]) == (200, "done")
    program.headers["Authorization"] = "Bearer trb_wrong"
    refused = follow(stack, program, f"/events/jobs/{job['id']}/log")
    assert (refused.status_code, refused.json()["code"]) == (401, "token_unknown")


def test_streams_are_for_those_who_may_see_the_build(stack: Stack, browser: requests.Session) -> None:
    assert follow(stack, requests.Session(), "/events/builds/1").status_code == 401
    assert follow(stack, browser, "/events/builds/999999").status_code == 404
    assert follow(stack, browser, "/events/jobs/nothing/log").status_code == 404


class Reader:
    """Somebody who may read the repository, with a token and a session."""

    def __init__(self, stack: Stack, name: str) -> None:
        self.stack, self.name = stack, name
        stack.call("POST", "/users", json={"username": name, "password": READERS}, expect=201)
        stack.call("POST", "/repositories/shop/members", json={"user": name, "role": "reader"}, expect=201)
        answer = requests.post(f"{stack.url}/tokens", json={"name": "t"}, auth=(name, READERS), timeout=10)
        self.token = answer.json()
        self.program = requests.Session()
        self.program.headers["Authorization"] = f"Bearer {self.token['token']}"
        self.browser = sign_in(stack, name, READERS)

    def lose_role(self) -> None:
        self.stack.call("DELETE", f"/repositories/shop/members/{self.name}", expect=204)

    def lose_account(self) -> None:
        self.stack.call("PATCH", f"/users/{self.name}", json={"is_active": False})

    def lose_token(self) -> None:
        address = f"{self.stack.url}/tokens/{self.token['id']}"
        assert self.program.delete(address, timeout=10).status_code == 204

    def lose_session(self) -> None:
        base = self.stack.url.removesuffix("/api/v1")
        # In a request of its own: the session's cookie stays with the browser that streams.
        cookies = self.browser.cookies.get_dict()
        [token] = [value for name, value in cookies.items() if name.startswith("tributary_csrf")]
        form = {"csrfmiddlewaretoken": token}
        answer = requests.post(f"{base}/logout", data=form, cookies=cookies, timeout=10, allow_redirects=False)
        assert answer.status_code == 302, answer.text


WITHDRAWALS: dict[str, Callable[[Reader], None]] = {
    "role": Reader.lose_role,
    "account": Reader.lose_account,
    "token": Reader.lose_token,
    "session": Reader.lose_session,
}


def test_every_stream_of_a_reader_whose_rights_are_withdrawn_ends(stack: Stack) -> None:
    body = "import time\nfor n in range(1200):\n    print('step', n)\n    time.sleep(0.1)\nout.write_table(i0.arrow())"
    source = HEAD + make_transform("secret", inputs=["/shop/raw"], output="/shop/secret", body=body)
    stack.commit({"pipelines/secret.py": source})
    readers = {thing: Reader(stack, f"reader-without-{thing}") for thing in WITHDRAWALS}
    build = stack.start_build("/shop/secret")
    job = stack.wait_for_job(build["id"], "RUNNING")
    paths = {"events-job-log": f"/events/jobs/{job['id']}/log", "events-build": f"/events/builds/{build['id']}"}
    assert set(paths) == {str(url.name) for url in page_urls if str(url.name).startswith("events-")}
    sessions = [
        (thing, session)
        for thing, reader in readers.items()
        for session in (reader.program, reader.browser)
        if session is not {"token": reader.browser, "session": reader.program}.get(thing)
    ]
    with ExitStack() as opened:
        streams = [
            (thing, name, read_events(opened.enter_context(follow(stack, session, path))))
            for thing, session in sessions
            for name, path in paths.items()
        ]
        for thing, name, events in streams:
            assert next(events)[0] == {"events-job-log": "line", "events-build": "change"}[name], thing
        for thing, withdraw in WITHDRAWALS.items():
            withdraw(readers[thing])
        for thing, name, events in streams:
            *_, (event, _, data) = events
            assert (event, data) == ("done", {"reason": "withdrawn", "code": 1}), (thing, name)
    for (thing, session), path in product(sessions, paths.values()):
        assert follow(stack, session, path).status_code == (404 if thing == "role" else 401), (thing, path)
    assert stack.call("GET", f"/jobs/{job['id']}")["state"] == "RUNNING"
    stack.call("POST", f"/builds/{build['id']}/cancel")
