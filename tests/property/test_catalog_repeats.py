"""Two web processes and a third that writes: whatever happens, an answer from memory is the one that would be made now.

A request with a header that nobody has sent before is always answered anew; the same one without it may be repeated. After
each step both are asked for everything, at both processes, as everybody.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.factories.builds import wait_until
from tests.factories.catalog import schema
from tests.integration.repositories.live import ROOT, LiveServer
from tests.integration.runtime.test_two_workers import Door, find_doors

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
SETUP = """
from webapp.accounts import services
admin = services.create_user(username="ines", password="ines-password-of-tests-1", by=None, is_admin=True)
result = services.create_token(user=admin, name="tests")[1]
"""
CLERK = """
import json, os, sys
sys.path.insert(0, os.getcwd())
import django
django.setup()
from django.db.models import Sum
from webapp.accounts import services
from webapp.accounts.models import AuditEntry, Token, User
from webapp.accounts.queries import principal_for_user
from webapp.accounts.services import people
ines = User.objects.get(username="ines")
by = principal_for_user(ines)
for line in sys.stdin:
    scope = {}
    exec(json.loads(line), globals(), scope)
    print(json.dumps(scope.get("result")), flush=True)
"""
TABLES = ("a", "b", "c")
BRANCHES = (None, "feature")
COMMITS = 40
READERS = 4
_numbers = count(1)


class Clerk:
    """A process that is no web process: it changes what the database says of people."""

    def __init__(self, server: LiveServer) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLERK],
            cwd=ROOT,
            env=server.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, code: str) -> Any:
        """Run code; its `result`. What it writes is committed when this returns."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        """End it."""
        self._process.communicate()


@dataclass
class World:
    """A running installation."""

    server: LiveServer
    admin: str
    clerk: Clerk
    doors: list[Door]

    def enter(self, name: str) -> str:
        """Make a person with a token and no role."""
        self.clerk.do(f"services.create_user(username={name!r}, password='a-password-of-tests-1', by=by)")
        return self.give_token(name)

    def give_token(self, name: str) -> str:
        """Make a token; those before it stay."""
        user = f"User.objects.get(username={name!r})"
        return str(self.clerk.do(f"result = services.create_token(user={user}, name='t')[1]"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two web processes, a connection to each, and a clerk."""
    server = LiveServer.start(tmp_path_factory.mktemp("home"), workers=2)
    admin = str(server.run(SETUP))
    clerk = Clerk(server)
    yield World(server, admin, clerk, find_doors(server))
    clerk.stop()
    server.close()


class NeverStale(RuleBasedStateMachine):
    """Reads beside everything that may change what they say."""

    world: World
    doors = st.sampled_from([0, 1])
    tables = st.sampled_from(TABLES)
    branches = st.sampled_from(BRANCHES)

    @initialize()
    def begin(self) -> None:
        """A folder of its own, and a person who may read it."""
        self.folder = f"f{next(_numbers)}"
        self.name = f"mira-{self.folder}"
        self.tokens = [self.world.admin, self.world.enter(self.name)]
        self.post(0, "namespaces", {"namespace": [self.folder]})
        self.world.clerk.do(f"services.claim_folder(folder={self.folder!r}, repository={self.folder!r})")
        self.grant("reader")
        for table in TABLES[:2]:
            self.create(0, table)

    @rule(door=doors, table=tables, branch=branches)
    def commit(self, door: int, table: str, branch: str | None) -> None:
        """A commit on master or a branch, which it may make."""
        update = {"action": "set-properties", "updates": {"turn": str(next(_numbers))}}
        self.post(door, f"{self.path}/{table}", {"requirements": [], "updates": [update]}, branch)

    @rule(door=doors, table=tables)
    def create(self, door: int, table: str) -> None:
        """A table, where there is none of that name."""
        self.post(door, self.path, {"name": table, "schema": schema()})

    @rule(door=doors, table=tables)
    def drop(self, door: int, table: str) -> None:
        """A table with its branches."""
        self.ask(door, "DELETE", f"{self.path}/{table}", self.world.admin)

    @rule(door=doors, table=tables, name=tables)
    def rename(self, door: int, table: str, name: str) -> None:
        """A table, where the other name is free."""
        source, destination = ({"namespace": [self.folder], "name": table_name} for table_name in (table, name))
        self.post(door, "tables/rename", {"source": source, "destination": destination})

    @rule(door=doors, table=tables)
    def delete_branch(self, door: int, table: str) -> None:
        """What the branch had of its own: it reads master again."""
        datasets = self.ask(door, "GET", f"/api/v1/datasets?path=/{self.folder}/{table}", self.world.admin)[1][
            "results"
        ]
        for dataset in datasets:
            self.ask(door, "DELETE", f"/api/v1/datasets/{dataset['id']}/branches/feature", self.world.admin)

    @rule(door=doors)
    def describe(self, door: int) -> None:
        """Another property of the namespace."""
        self.post(door, f"namespaces/{self.folder}/properties", {"removals": [], "updates": {"n": str(next(_numbers))}})

    @rule(role=st.sampled_from(["reader", "writer", None]))
    def grant(self, role: str | None) -> None:
        """Another role, or none."""
        user = f"User.objects.get(username={self.name!r})"
        self.world.clerk.do(f"services.grant_role(repository={self.folder!r}, user={user}, role={role!r}, by=by)")

    @rule()
    def revoke(self) -> None:
        """The person's token ends, and there is another one."""
        self.world.clerk.do(
            f"Token.objects.filter(user__username={self.name!r}).update(revoked_at='2026-01-01T00:00Z')"
        )
        self.tokens = [self.world.admin, self.tokens[-1], self.world.give_token(self.name)]

    @rule(is_active=st.booleans())
    def activate(self, is_active: bool) -> None:
        """The person goes, or comes back."""
        user = f"User.objects.get(username={self.name!r})"
        self.world.clerk.do(f"people.set_active(user={user}, is_active={is_active}, by=by)")

    @invariant()
    def compare(self) -> None:
        """Everything that can be read, twice as it is always asked and once as it never was."""
        if not hasattr(self, "folder"):
            return
        paths = [f"{self.path}/{table}" for table in TABLES]
        for path in [*paths, f"{self.path}?pageSize=2&pageToken=", f"namespaces/{self.folder}", "namespaces"]:
            for token in self.tokens:
                for branch in BRANCHES if path in paths else BRANCHES[:1]:
                    answers = [
                        self.ask(door, "GET", path, token, branch, **headers)
                        for door in (0, 1)
                        for headers in ({}, {}, {"X_Never": str(next(_numbers))})
                    ]
                    assert all(answer == answers[-1] for answer in answers), (path, branch, answers)

    @property
    def path(self) -> str:
        """Of the tables."""
        return f"namespaces/{self.folder}/tables"

    def post(self, door: int, path: str, body: object, branch: str | None = None) -> None:
        """Change something, or be refused."""
        status = self.ask(door, "POST", path, self.world.admin, branch, body)[0]
        assert status in (200, 204, 404, 409), status

    def ask(
        self, door: int, method: str, path: str, token: str, branch: str | None = None, body: object = None, **more: str
    ) -> tuple[int, Any]:
        """Status and body."""
        headers = {"Authorization": f"Bearer {token}", **more}
        if branch is not None:
            headers["X_PLTR_Branch"] = branch
        address = path if path.startswith("/") else f"/iceberg/v1/{path}"
        status, answer, _headers = self.world.doors[door].ask(method, address, body, **headers)
        return status, answer


def test_what_is_repeated_is_what_would_be_answered_now(world: World) -> None:
    NeverStale.world = world
    run_state_machine_as_test(
        NeverStale,
        settings=hypothesis_settings(
            max_examples=2,
            stateful_step_count=20,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_readers_beside_a_writer_see_what_was_acknowledged_and_each_read_is_counted(world: World) -> None:
    bearer = {"Authorization": f"Bearer {world.admin}"}
    writer = world.doors[0]
    writer.ask("POST", "/iceberg/v1/namespaces", {"namespace": ["busy"]}, **bearer)
    answer = writer.ask("POST", "/iceberg/v1/namespaces/busy/tables", {"name": "t", "schema": schema()}, **bearer)
    assert answer[0] == 200
    token = world.enter("olek")
    world.clerk.do(
        "services.claim_folder(folder='busy', repository='busy')\n"
        "services.grant_role(repository='busy', user=User.objects.get(username='olek'), role='reader', by=by)"
    )
    path = "/iceberg/v1/namespaces/busy/tables/t"
    acknowledged = 0
    is_over = threading.Event()
    failures: list[str] = []
    loads: list[int] = []

    def read(door: Door) -> None:
        number = 0
        while not is_over.is_set() and not failures:
            least = acknowledged
            status, body, _headers = door.ask("GET", path, Authorization=f"Bearer {token}")
            turn = int(body["metadata"]["properties"].get("turn", 0)) if status == 200 else -1
            if turn < least:
                failures.append(f"{status}: {turn} after {least} was acknowledged")
            number += 1
        loads.append(number)

    readers = [
        threading.Thread(target=read, args=(door,)) for _ in range(READERS // 2) for door in find_doors(world.server)
    ]
    for reader in readers:
        reader.start()
    for turn in range(1, COMMITS + 1):
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"turn": str(turn)}}]}
        assert world.doors[turn % 2].ask("POST", path, change, **bearer)[0] == 200
        acknowledged = turn
        time.sleep(0.02)  # without a pause nothing is ever the same twice
    is_over.set()
    for reader in readers:
        reader.join()
    assert not failures
    counted = "result = AuditEntry.objects.filter(actor='olek', verb='load_table').aggregate(n=Sum('count'))['n']"
    wait_until(lambda: world.clerk.do(counted) == sum(loads), seconds=30)
