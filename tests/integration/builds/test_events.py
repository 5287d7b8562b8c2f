"""Event streams from the real server: stored lines, live lines, resume, end, and who may listen."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.factories.builds import HEAD, PASSWORD, Stack, make_transform

SEEN = "print('made with a token')\nout.write_table(i0.arrow())"
pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def browser(stack: Stack) -> requests.Session:
    """Return a signed-in browser session."""
    session = requests.Session()
    base = stack.url.removesuffix("/api/v1")
    page = session.get(f"{base}/login", timeout=10)
    token = page.text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    form = {"username": "admin", "password": PASSWORD, "csrfmiddlewaretoken": token}
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


@pytest.mark.parametrize("withdrawn", ["role", "token"])
def test_the_stream_of_a_reader_whose_rights_are_withdrawn_ends(stack: Stack, withdrawn: str) -> None:
    name = f"reader-{withdrawn}"
    stack.call("POST", "/users", json={"username": name, "password": "a-password-of-readers-1"}, expect=201)
    stack.call("POST", "/repositories/shop/members", json={"user": name, "role": "reader"}, expect=201)
    auth = (name, "a-password-of-readers-1")
    token = requests.post(f"{stack.url}/tokens", json={"name": "t"}, auth=auth, timeout=10).json()
    body = "import time\nfor n in range(400):\n    print('step', n)\n    time.sleep(0.1)\nout.write_table(i0.arrow())"
    source = HEAD + make_transform("secret", inputs=["/shop/raw"], output="/shop/secret", body=body)
    stack.commit({f"pipelines/secret_{withdrawn}.py": source.replace("/shop/secret", f"/shop/secret_{withdrawn}")})
    build = stack.start_build(f"/shop/secret_{withdrawn}")
    job = stack.wait_for_job(build["id"], "RUNNING")
    headers = {"Authorization": f"Bearer {token['token']}"}
    address = f"{stack.url.removesuffix('/api/v1')}/events/jobs/{job['id']}/log"
    events: list[tuple[str, Any]] = []
    with requests.get(address, stream=True, timeout=30, headers=headers) as answer:
        for event, _, data in read_events(answer):
            if not events:
                if withdrawn == "role":
                    stack.call("DELETE", f"/repositories/shop/members/{name}", expect=204)
                else:
                    path = f"{stack.url}/tokens/{token['id']}"
                    assert requests.delete(path, headers=headers, timeout=10).status_code == 204
            events.append((event, data))
    stack.call("POST", f"/builds/{build['id']}/cancel")
    assert events[-1] == ("done", {"reason": "withdrawn", "code": 1})
    assert len([event for event, _ in events if event == "line"]) < 200
    assert requests.get(address, timeout=10, headers=headers).status_code in {401, 404}
