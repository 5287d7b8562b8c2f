"""One walk over every operation of the REST API, on a whole installation: each answers once as openapi.json says.

The answers themselves are checked where they are seen (`api_document.checking_answers`); the walk sees to it that there
is one of every operation. Then the same operations are sent what they do not take.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from tests.factories.api_document import ApiDocument, read_document
from tests.factories.browsing import sign_in
from tests.factories.builds import HEAD, PIPELINE, Stack, make_transform, running_stack, wait_until
from webapp.accounts.rules.audit import HOURLY, READS

pytestmark = pytest.mark.contract

BRANCH = "feature/a+b@1=2"
KEYED = PIPELINE + '\n[datasets."/shop/totals"]\nkey = ["id"]\n'
PASSWORD = "a-password-of-people-1"


def source(factor: int) -> str:
    body = (
        f't = i0.arrow()\nout.write_table(t.set_column(1, "amount", pa.compute.multiply(t["amount"], {factor})))\n'
        'print("made")'
    )
    return (
        HEAD
        + "import pyarrow.compute\n\n"
        + make_transform("totals", inputs=["/shop/orders"], output="/shop/totals", body=body)
    )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    home: Path = tmp_path_factory.mktemp("walk") / "home"
    home.mkdir(mode=0o700)
    with running_stack(home) as running:
        yield running


@pytest.fixture(scope="module")
def document() -> ApiDocument:
    return read_document()


class Audited:
    """Counts, for each request that changes something, the entries that its sender has got in the audit log."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._send = stack.request
        self.verbs: dict[str, list[str]] = {}
        stack.request = self.request  # type: ignore[method-assign]

    def request(self, method: str, path: str, **more: Any) -> requests.Response:
        if method == "GET":
            return self._send(method, path, **more)
        last = self._list()[0]["id"]
        answer = self._send(method, path, **more)
        if answer.ok:
            entries = [entry for entry in self._list() if entry["id"] > last]
            self.verbs[f"{method} {path}"] = [entry["verb"] for entry in entries if self._is_act(entry)]
        return answer

    def _list(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self._send("GET", "/audit?limit=100").json()["results"]
        return entries

    @staticmethod
    def _is_act(entry: dict[str, Any]) -> bool:
        """What a job did, what followed of itself, and what is counted by the minute is not the request's."""
        is_counted = entry["verb"] in (*READS, *HOURLY) or entry["outcome"] == "refused"
        return entry["actor"] != "system" and not entry["job"] and not is_counted


def test_every_operation_answers_as_described(stack: Stack, document: ApiDocument) -> None:
    document.answered.clear()
    audited = Audited(stack)
    walk_accounts(stack)
    walk_repository(stack)
    orders = walk_dataset(stack)
    walk_builds(stack, orders)
    walk_history(stack)
    number = walk_pull(stack)
    walk_merge(stack, number)
    walk_queries(stack)
    walk_previews(stack)
    walk_ends(stack)
    succeeded = {(method, path) for method, path, status in document.answered if status.startswith("2")}
    assert set(document.operations) - succeeded == set()
    # A dry run and a linter change nothing; the branches of datasets that go with a branch, or come back with it, are
    # named each.
    silent = {"POST /builds", "POST /repositories/shop/lint"}
    several = {path: verbs for path, verbs in audited.verbs.items() if len(verbs) != 1 and path not in silent}
    assert [verbs for verbs in several.values() if not {"delete_branch", "restore_branch"}.intersection(verbs)] == []


def walk_accounts(stack: Stack) -> None:
    answer = requests.post(f"{stack.url}/tokens", json={"name": "walk"}, auth=("admin", "a-password-of-tests-1"))
    assert answer.status_code == 201
    stack.call("GET", "/tokens?limit=1")
    stack.call("DELETE", f"/tokens/{answer.json()['id']}", expect=204)
    stack.call("POST", "/users", json={"username": "mira", "password": PASSWORD}, expect=201)
    stack.call("GET", "/users")
    stack.call("PATCH", "/users/mira", json={"password": f"{PASSWORD}-changed"})
    stack.call("GET", "/users/mira/tokens")
    stack.call("GET", "/profile")
    sign_in(stack.url.removesuffix("/api/v1"), "admin", "a-password-of-tests-1")
    (session,) = stack.call("GET", "/sessions")["results"]
    stack.call("DELETE", f"/sessions/{session['id']}", expect=204)
    stack.call("DELETE", "/sessions", expect=204)
    changed = {"current_password": f"{PASSWORD}-changed", "password": PASSWORD}
    auth = ("mira", f"{PASSWORD}-changed")
    assert requests.post(f"{stack.url}/password", json=changed, auth=auth, timeout=10).status_code == 204
    stack.call("POST", "/groups", json={"name": "owners", "users": ["mira"]}, expect=201)
    stack.call("GET", "/groups")
    stack.call("GET", "/audit?actor=admin")
    stack.call("GET", "/notifications?state=all")
    stack.call("POST", "/notifications/mark", json={"state": "read"}, expect=200)
    stack.call("GET", "/notifications/settings")
    stack.call("PATCH", "/notifications/settings", json={"channels": {"mentioned": "inbox"}})
    for kind in ("csv", "jsonl"):
        assert stack.request("GET", f"/audit.{kind}?verb=create_user").status_code == 200


def walk_repository(stack: Stack) -> None:
    stack.make_repository()
    stack.call("GET", "/repositories")
    stack.call("GET", "/repositories/shop")
    stack.call("PATCH", "/repositories/shop", json={"description": "What we sell"})
    stack.call("POST", "/repositories/shop/members", json={"user": "mira", "role": "maintainer"}, expect=201)
    stack.call("GET", "/repositories/shop/members")
    rules = {"branch": "release", "approvals": 2, "groups": ["owners"], "checks": ["Build"]}
    stack.call("POST", "/repositories/shop/protections", json=rules, expect=201)
    stack.call("GET", "/repositories/shop/protections")
    stack.call("GET", "/repositories/shop/protections/release")
    stack.call("PATCH", "/repositories/shop/protections/release", json={"approvals": 1})
    stack.call("DELETE", "/repositories/shop/protections/release", expect=204)
    told = stack.call("POST", "/repositories/shop/webhooks", json={"url": "https://hooks.invalid/"}, expect=201)
    stack.call("GET", "/repositories/shop/webhooks")
    stack.call("GET", f"/repositories/shop/webhooks/{told['id']}")
    stack.call("GET", f"/repositories/shop/webhooks/{told['id']}/deliveries")
    stack.call("DELETE", f"/repositories/shop/webhooks/{told['id']}", expect=204)
    walk_watch(stack, "/repositories/shop")
    made = stack.commit({"pipeline.toml": KEYED, "pipelines/totals.py": source(2)})
    stack.call("GET", "/repositories/shop/commits?path=pipelines/totals.py")
    stack.call("GET", f"/repositories/shop/commits/{made['sha']}")
    status = {"name": "lint", "state": "success", "target_url": "https://ci.invalid/1"}
    stack.call("POST", f"/repositories/shop/commits/{made['sha']}/statuses", json=status, expect=201)
    stack.call("GET", f"/repositories/shop/commits/{made['sha']}/statuses")
    stack.call("GET", "/repositories/shop/contents/")
    stack.call("GET", "/repositories/shop/contents/pipelines/totals.py?ref=master")
    stack.call("GET", "/repositories/shop/jobspecs")
    stack.call("POST", "/repositories/shop/lint", json={"path": "a.py", "text": "import os\n"})


def walk_dataset(stack: Stack) -> str:
    assert stack.upload("/shop/orders", "id,amount\n1,10\n2,20\n3,\n").status_code == 201
    stack.call("GET", "/datasets?q=orders")
    (dataset,) = stack.call("GET", "/datasets?path=/shop/orders")["results"]
    here = f"/datasets/{dataset['id']}"
    for part in ("", "/branches", "/branches/master", "/transactions", "/schema", "/preview?q=20", "/lineage"):
        stack.call("GET", f"{here}{part}")
    stack.call("POST", f"{here}/branches", json={"name": "side", "parent": "master"}, expect=201)
    for parent in (None, "master"):
        assert stack.call("PATCH", f"{here}/branches/side", json={"parent": parent})["parent"] == parent
    opened = stack.call("POST", f"{here}/transactions", json={"branch": "side", "type": "APPEND"}, expect=201)
    stack.call("GET", f"{here}/transactions/{opened['id']}")
    stack.call("POST", f"{here}/transactions/{opened['id']}/abort")
    opened = stack.call("POST", f"{here}/transactions", json={"branch": "side"}, expect=201)
    stack.call("POST", f"{here}/transactions/{opened['id']}/commit")
    stack.call("DELETE", f"{here}/branches/side", expect=204)
    walk_watch(stack, here)
    return here


def walk_watch(stack: Stack, here: str) -> None:
    stack.call("PUT", f"{here}/watch")
    stack.call("GET", f"{here}/watch")
    stack.call("DELETE", f"{here}/watch", expect=204)


def walk_builds(stack: Stack, orders: str) -> None:
    order = {"branch": "master", "targets": ["/shop/totals"]}
    stack.call("POST", "/builds", json={**order, "dry_run": True}, expect=200)
    built = stack.build("/shop/totals")
    assert built["state"] == "COMPLETED", built
    stack.call("GET", "/builds?state=COMPLETED&target=/shop/totals")
    (job,) = built["jobs"]
    stack.call("GET", f"/jobs/{job['id']}")
    assert stack.call("GET", f"/jobs/{job['id']}/log?after=1")["lines"]
    stack.call("GET", f"{orders}/lineage?branch=master")
    started = stack.start_build("/shop/totals", force=True)
    stack.call("POST", f"/builds/{started['id']}/cancel", expect=202)
    ended = stack.wait_for_build(started["id"])
    if ended["state"] == "COMPLETED":  # it was quicker than its cancellation
        pytest.fail("the build could not be cancelled: make it longer")
    stack.wait_for_build(stack.call("POST", f"/builds/{started['id']}/retry", expect=202)["id"])


def walk_history(stack: Stack) -> None:
    stack.call("POST", "/repositories/shop/branches", json={"name": BRANCH, "start_point": "master"}, expect=201)
    stack.call("GET", "/repositories/shop/branches?q=gr")
    stack.call("GET", f"/repositories/shop/branches/{quote(BRANCH, safe='')}")
    stack.commit({"pipelines/totals.py": source(3)}, branch=BRANCH)
    stack.call("GET", f"/repositories/shop/compare?base=master&head={quote(BRANCH)}")
    assert stack.build("/shop/totals", branch=BRANCH)["state"] == "COMPLETED"


def walk_pull(stack: Stack) -> int:
    pulls = "/repositories/shop/pulls"
    stack.commit({"checks/orders.sql": "-- expect: rows > 0\nSELECT * FROM orders"}, branch=BRANCH)
    made = stack.call("POST", pulls, json={"title": "Thrice", "source": BRANCH}, expect=201)
    here = f"{pulls}/{made['number']}"
    stack.call("GET", f"{pulls}?state=open")
    stack.call("GET", here)
    stack.call("PATCH", here, json={"body": "Because."})
    stack.call("POST", f"{here}/close")
    stack.call("POST", f"{here}/reopen")
    stack.commit({"notes.md": "master moves\n"})
    stack.call("GET", f"{here}/conflicts")
    stack.call("POST", f"{here}/update")
    note = {"path": "notes.md", "line": 1, "side": "head"}
    wish = {"body": "```suggestion\nmaster moved\n```", "anchor": note}
    suggested = stack.call("POST", f"{here}/comments", json=wish, expect=201)
    stack.call("POST", f"{here}/suggestions", json={"comments": [suggested["id"]]}, expect=201)
    build = stack.call("POST", f"{here}/builds", json={"sides": ["head"], "scope": "modified"}, expect=202)
    stack.wait_for_build(build["id"])
    rows = wait_for_rows(stack, f"{here}/datasets")
    for part in ("commits", "files", "checks", "lineage"):
        stack.call("GET", f"{here}/{part}")
    stack.call("POST", f"{here}/checks", json={"name": "checks/orders"}, expect=202)
    dataset = f"{here}/datasets/{rows['id']}"
    for part in (
        "schema",
        "statistics",
        "spread?by=id",
        "three-ways",
        "rows?change=updated&column=amount&q=id=1&sort=-amount&limit=1",
    ):
        stack.call("GET", f"{dataset}/{part}")
    for part in ("rows.csv", "rows.parquet"):
        assert stack.request("GET", f"{dataset}/{part}").status_code == 200
    anchor = {"dataset": "/shop/totals", "key": {"id": 1}, "column": "amount"}
    stack.call("POST", f"{here}/comments", json={"body": "Why?", "anchor": anchor}, expect=201)
    [_, comment] = stack.call("GET", f"{here}/comments")["results"]
    at = f"{here}/comments/{comment['id']}"
    reply = stack.call("POST", f"{here}/comments", json={"body": "Hm.", "reply_to": comment["id"]}, expect=201)
    stack.call("PATCH", at, json={"body": "Why is it so?"})
    stack.call("PATCH", at, json={"resolved": True})
    stack.call("GET", at)
    stack.call("DELETE", f"{here}/comments/{reply['id']}", expect=204)
    stack.call("POST", "/repositories/shop/labels", json={"name": "data", "tone": "ok"}, expect=201)
    assert stack.call("PUT", f"{here}/labels", json={"labels": ["data"]})["labels"] == ["data"]
    assert stack.call("PUT", f"{here}/assignees", json={"users": ["mira"]})["assignees"] == ["mira"]
    [named] = stack.call("GET", f"{pulls}?label=data&assignee=mira")["results"]
    assert named["number"] == made["number"]
    stack.call("GET", "/repositories/shop/labels")
    stack.call("DELETE", "/repositories/shop/labels/data", expect=204)
    [asked] = stack.call("POST", f"{here}/reviewers", json={"users": ["mira"]})["results"]
    assert (asked["name"], asked["state"]) == ("mira", "asked")
    stack.call("GET", f"{here}/reviewers")
    stack.call("DELETE", f"{here}/reviewers?user=mira", expect=204)
    pending = f"{here}/pending-comments"
    comment = stack.call("POST", pending, json={"body": "Later.", "anchor": anchor}, expect=201)
    stack.call("PATCH", f"{pending}/{comment['id']}", json={"body": "Hm."})
    assert [comment["body"] for comment in stack.call("GET", pending)["results"]] == ["Hm."]
    stack.call("DELETE", f"{pending}/{comment['id']}", expect=204)
    stack.call("DELETE", pending, expect=204)
    number: int = made["number"]
    return number


def wait_for_rows(stack: Stack, path: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def is_ready() -> bool:
        found[:] = [row for row in stack.call("GET", path)["results"] if row["rows"]["state"] == "ready"]
        return bool(found)

    wait_until(is_ready, seconds=40)
    return found[0]


def walk_merge(stack: Stack, number: int) -> None:
    here = f"/repositories/shop/pulls/{number}"
    answer = requests.post(f"{stack.url}/tokens", json={"name": "mira"}, auth=("mira", PASSWORD), timeout=10)
    mira = {"Authorization": f"Bearer {answer.json()['token']}"}
    assert stack.call("POST", f"{here}/queue", expect=202)["state"] == "waiting"  # for an approval
    stack.call("GET", "/repositories/shop/queue?target=master")
    stack.call("DELETE", f"{here}/queue", expect=204)
    stack.upload("/shop/walked", "id\n1\n", branch=BRANCH)
    wait_until(lambda: bool(stack.call("GET", f"{here}/uploads")["results"]), seconds=30)
    stack.call("POST", f"{here}/uploads", json={"dataset": "/shop/walked", "load": False})
    review = requests.post(
        f"{stack.url}{here}/reviews", json={"verdict": "approve", "body": "Good."}, headers=mira, timeout=10
    )
    assert review.status_code == 201
    stack.call("GET", f"{here}/reviews")
    (dataset, *_) = stack.call("GET", f"{here}/datasets")["results"]
    stack.call("POST", f"{here}/datasets/{dataset['id']}/verdict", json={"verdict": "rejected", "reason": "Too few."})
    stack.call("POST", f"{here}/datasets/{dataset['id']}/verdict", json={"verdict": "none"})
    assert requests.post(f"{stack.url}{here}/merge", json={"method": "rebase"}, headers=mira).status_code == 422
    merge = stack.call("POST", f"{here}/merge", json={"method": "squash", "rebuild": "modified"}, expect=202)
    stack.wait_for_build(merge["build"]["id"])
    stack.call("POST", f"{here}/revert", expect=201)
    stack.call("DELETE", f"/repositories/shop/branches/{quote(BRANCH, safe='')}", expect=204)
    stack.call("POST", f"{here}/restore-branch", expect=201)
    wait_until(lambda: stack.call("GET", here)["merge"]["state"] == "done", seconds=30)
    stack.call("GET", f"{here}/timeline")


def walk_queries(stack: Stack) -> None:
    here = "/repositories/shop/queries"
    started = stack.call("POST", here, json={"sql": 'SELECT id, amount FROM "/shop/orders" ORDER BY id'}, expect=202)
    query = f"{here}/{started['id']}"
    wait_until(lambda: stack.call("GET", query)["state"] == "ready", seconds=30)
    page = stack.call("GET", f"{query}/rows?limit=2")
    assert (page["rows"], page["total"], page["next"]) == ([[1, 10], [2, 20]], 3, "2")
    stack.call("POST", f"{query}/cancel", expect=202)
    both = {"sql": "SELECT count(*) AS n FROM orders", "branch": BRANCH, "base": "master"}
    compared = f"{here}/{stack.call('POST', here, json=both, expect=202)['id']}"
    wait_until(lambda: stack.call("GET", compared)["state"] == "ready", seconds=30)
    assert stack.call("GET", f"{compared}/difference")["state"] == "equal"
    stack.call("GET", here)


def walk_previews(stack: Stack) -> None:
    here = "/repositories/shop/previews"
    (spec, *_) = stack.call("GET", "/repositories/shop/jobspecs?branch=master")["results"]
    started = stack.call("POST", here, json={"file": spec["file"]}, expect=202)
    preview = f"{here}/{started['id']}"
    wait_until(lambda: stack.call("GET", preview)["state"] not in ("queued", "running"), seconds=60)
    ended = stack.call("GET", preview)
    assert ended["state"] == "ready", ended
    assert stack.call("GET", f"{preview}/rows?limit=2")["total"] == ended["outputs"][0]["rows"]
    assert stack.call("GET", f"{preview}/difference")["state"] == "equal"
    assert stack.call("GET", f"{preview}/log")["lines"]
    stack.call("POST", f"{preview}/cancel", expect=202)
    stack.call("GET", here)


def walk_ends(stack: Stack) -> None:
    (dataset,) = stack.call("GET", "/datasets?path=/shop/totals")["results"]
    here = f"/datasets/{dataset['id']}"
    newest, *_, oldest = stack.call("GET", f"{here}/transactions?branch=master")["results"]
    ends = f"from={oldest['id']}&to={newest['id']}"
    for path in (f"{here}/compare?{ends}", f"{here}/changelog?keys=id", f"{here}/blame?key.id=1"):
        stack.call("GET", path)
        wait_until(lambda path=path: stack.call("GET", path)["state"] == "ready", seconds=30)  # type: ignore[misc]
        stack.call("POST", path, expect=202)
    for part in ("rows.csv", "rows.parquet"):
        assert stack.request("GET", f"{here}/compare/{part}?{ends}").status_code == 200
    stack.call("GET", f"{here}/compare/statistics?{ends}&scope=changed")
    stack.call("GET", f"{here}/trend?branch={quote(BRANCH, safe='')}&column=amount")
    stack.call("POST", f"{here}/compare/cancel?{ends}", expect=202)
    stack.call("DELETE", f"/repositories/shop/branches/{quote(BRANCH, safe='')}", expect=204)
    (deleted,) = stack.call("GET", f"{here}/deleted-branches")["results"]
    stack.call("POST", f"{here}/deleted-branches/{deleted['id']}/restore", expect=201)
    stack.call("DELETE", "/repositories/shop/members/mira", expect=204)
    stack.call("DELETE", "/repositories/shop", expect=204)
