"""Names that somebody may take for a protected branch: other forms, other cases, other alphabets, tags, commits.

A writer, who may not move a protected branch, sends each of them wherever a text is taken: in every member of every body,
every query, every variable of an address, every field of every form, in the catalog's header and refs, and in a push. After
all that the protected branches are what they were, in Git, in the catalog, in the datasets, in builds and pull requests.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from itertools import chain, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from tests.factories import datasets, repositories
from tests.factories.api_document import read_document
from tests.factories.catalog import Catalog, set_ref
from tests.factories.everything import BODIES, Upload, World, list_operations, make_world
from tests.factories.forms import list_build_forms, list_dataset_forms, list_pull_forms, list_repository_forms
from tests.factories.routes import list_routes, share_out
from tests.factories.rows import list_refs
from webapp.accounts.models import User
from webapp.accounts.queries import principal_for_user
from webapp.builds.models import Build, PublishedSpec
from webapp.datasets.models import Dataset, DatasetBranch
from webapp.git.values import RefUpdate
from webapp.pulls.models import PullRequest
from webapp.repositories.models import Repository
from webapp.repositories.queries import get_head
from webapp.repositories.services import check_push, set_protection

pytestmark = [pytest.mark.contract, pytest.mark.django_db(transaction=True), pytest.mark.timeout(900)]
PROTECTED = ("master", "release")
FORMS = (
    "refs/heads/{}", "heads/{}", "refs/tags/{}", "tags/{}", "refs/remotes/origin/{}", "origin/{}", "refs/{}", "/{}",
    "./{}", "{}/", "{}/.", "//{}", "../heads/{}", "{}^", "{}^0", "{}^{{}}", "{}^{{commit}}", "{}~0", "{}@{{0}}",
    "{}@{{upstream}}", "{}:", ":{}", "+{}", "{}:{}", "fix:{}", "-{}", "--{}", "{}.lock", " {}", "{} ", "{}\n", "{}\t",
    "\u200b{}", "{}\u200b", "{}\u00ad", "\ufeff{}", "{}\u0301", "{}\0", "{}\0x", "%6d{}", "{}%00", "{}?x", "{}#x", "{},fix",
    "fix,{}", "{}*", "*", "_job/{}", "{}.", "{}\\", '"{}"', "'{}'", "${{{}}}", "`{}`",
)  # fmt: skip
OTHERS = ("HEAD", "head", "FETCH_HEAD", "ORIG_HEAD", "@", "main", "MAIN", "refs/heads/main", "refs/pull/1/head", "")
SHARES = 30


def list_names(commit: str) -> list[str]:
    """Names that are not a protected branch and may be taken for one."""
    names = [form.format(*[branch] * form.count("{}")) for branch in PROTECTED for form in FORMS]
    for branch in PROTECTED:
        wide = "".join(chr(ord(letter) + 0xFEE0) for letter in branch)
        names += [branch.upper(), branch.capitalize(), wide, branch.replace("a", "\u0430").replace("s", "\u017f")]
    return [*dict.fromkeys([*names, *OTHERS, commit, commit[:7], commit.upper()])]


@pytest.fixture
def world(readers: Path) -> World:
    world = make_world()
    repository = Repository.objects.get(name="shop")
    maker = principal_for_user(world.users["maintainer"])
    repositories.a_branch(repository, "release", start="master", by=maker)
    set_protection(repository=repository, branch="release", by=maker)
    world.values["protected"] = get_head(repository, "master")
    return world


def _dataset(world: World) -> Dataset:
    return Dataset.objects.get(pk=world.values["dataset_id"])


def describe_protected(world: World) -> dict[str, Any]:
    """What the protected branches are: their code, and of master, whose data needs a maintainer, its data too."""
    repository = Repository.objects.get(name="shop")
    refs = list_refs()["shop"]
    admin = world.users["admin"]
    pointers = DatasetBranch.objects.filter(name="master", dataset__path="/shop/raw").values_list("name", "transaction")
    view = datasets.a_client(admin).load("shop.raw").metadata
    return {
        "refs": {branch: refs[f"refs/heads/{branch}"] for branch in PROTECTED},
        "pointers": sorted(pointers),
        "rows": (view["current-snapshot-id"], view["schemas"], view["refs"]["main"]),
        "specs": sorted(PublishedSpec.objects.filter(branch__in=PROTECTED).values_list("branch", "function", "digest")),
        "builds": sorted(Build.objects.filter(branch="master").values_list("pk", flat=True)),
        "merged": sorted(PullRequest.objects.filter(state="merged").values_list("number", flat=True)),
        "protections": sorted(repository.protections.values_list("branch", flat=True)),
    }


def list_requests(names: list[str], *, shares: int) -> Iterator[tuple[str, str, Any]]:
    """Method, path with names for its variables, and body: each text of each operation in its turn."""
    document = read_document()
    number = 0
    for method, path in list_operations():
        operation, base = document.operations[method, path], BODIES.get(f"{method} {path}", {})
        content = operation.get("requestBody", {}).get("content", {})
        schema = next(iter(content.values()))["schema"] if content else {}
        members = document.raw["components"]["schemas"].get(schema.get("$ref", "").rpartition("/")[2], {})
        for member, described in members.get("properties", {}).items() if not isinstance(base, Upload) else ():
            number += 1
            for name in share_out(names, number=number, of=shares):
                value = [name] if "array" in str(described.get("type")) else name
                yield method, path, {**base, member: value}
        for parameter in operation.get("parameters", ()):
            is_text = parameter["in"] == "query" and parameter["schema"].get("type") == "string"
            number += is_text
            for name in share_out(names, number=number, of=shares) if is_text else ():
                yield method, f"{path}?{parameter['name']}={_quote(name)}", base


def _quote(name: str) -> str:
    return quote(name, safe="")


def send_api(world: World, names: list[str], *, shares: int) -> int:
    """As a writer, in every member and query of the REST API; then in every variable of every address."""
    client, sent = Client(raise_request_exception=False), 0
    header = world.bearer("writer", "")
    for method, path, body in list_requests(names, shares=shares):
        if isinstance(body, Upload):
            continue
        answer = client.generic(
            method, world.address(path), json.dumps(body).encode(), "application/json", headers=header
        )
        assert answer.status_code < 500, (method, path, body)
        sent += 1
    browser = Client(raise_request_exception=False)
    browser.force_login(world.users["writer"])
    for number, route in enumerate(list_routes()):
        for variable in route.texts:
            if variable in ("repo", "name", "username", "job_id", "draft"):
                continue
            for name in share_out(names, number=number, of=shares):
                there, _, rest = route.address.partition(f"{{{variable}}}")
                address = world.address(there) + _quote(name) + world.address(rest)
                who, sent_headers = (client, header) if address.startswith("/api/") else (browser, {})
                for method in ("POST", "DELETE", "PATCH"):
                    body = BODIES.get(f"{method} {route.address}", {})
                    content = b"{}" if isinstance(body, Upload) else json.dumps(body).encode()
                    answer = who.generic(method, address, content, "application/json", headers=sent_headers)
                    assert answer.status_code < 500, (method, address)
                    sent += 1
    return sent


def send_forms(world: World, names: list[str], *, shares: int) -> int:
    """As a writer, in every field of every form; the forms themselves are not sent as they are meant."""
    sent = 0
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.get(username="a-writer"))
    builds = takewhile(lambda form: form.verb != "send_file", list_build_forms(world))
    forms = chain(list_dataset_forms(world), builds, list_repository_forms(), list_pull_forms(world))
    for number, form in enumerate(forms):
        if "{comment}" in form.address:
            continue
        for place, field in enumerate(name for name, value in form.fields.items() if isinstance(value, str)):
            for name in share_out(names, number=number + place, of=shares):
                answer = client.post(form.address + form.query, {**form.fields, field: name})
                assert answer.status_code < 500, (form, field, name)
                sent += 1
    return sent


def send_catalog(world: World, names: list[str]) -> int:
    """As a writer: in the header, in the table's name, and as the name of a ref, which is moved, made and removed."""
    writer = world.secrets["writer", ""]
    snapshot = datasets.a_client(world.users["admin"]).load("shop.raw").metadata["snapshots"][0]["snapshot-id"]
    clients = [Catalog(writer), Catalog(writer, "fix")]
    answers = []
    for name in names:
        header = name.encode("utf-8", "replace").decode("latin-1").strip("\r\n")
        answers.append(datasets.try_write(Catalog(writer, header), _dataset(world)))
        for client in clients:
            path = f"namespaces/shop/tables/{_quote(f'raw.branch_{name}')}"
            answers.append(client.call("GET", path).status)
            answers.append(
                client.call("POST", path, {"requirements": [], "updates": [set_ref("main", snapshot)]}).status
            )
            for kind in ("branch", "tag"):
                answers.append(client.commit("shop.raw", set_ref(name, snapshot, kind)).status)
            answers.append(client.commit("shop.raw", {"action": "remove-snapshot-ref", "ref-name": name}).status)
    assert max(answers) < 500
    return len(answers)


def send_pushes(world: World, names: list[str]) -> None:
    """A push by a writer of any of these as a branch: refused, or a branch of its own that nobody takes for another."""
    repository = Repository.objects.get(name="shop")
    writer = principal_for_user(world.users["writer"])
    commit = get_head(repository, "fix")
    for name in names:
        for ref in (f"refs/heads/{name}", name, f"refs/{name}", f"refs/tags/{name}"):
            update = RefUpdate(ref=ref, before="", after=commit, fast_forward=True)
            reasons = check_push(repository=repository, updates=[update], by=writer)
            is_theirs = ref.startswith("refs/tags/") or not is_like_protected(ref.removeprefix("refs/heads/"))
            assert reasons or is_theirs, ref
        repository.pending_moves.all().delete()
        repository.deletions.all().delete()


def is_like_protected(name: str) -> bool:
    """Whether somebody, or a program, may take a name for a protected branch."""
    folded = unicodedata.normalize("NFKC", name).casefold().strip("/ .")
    return folded in PROTECTED or folded.endswith(tuple(f"heads/{branch}" for branch in PROTECTED))


def check(world: World, *, shares: int) -> None:
    names = list_names(world.values["protected"])
    assert len(names) > 100
    before = describe_protected(world)
    for send in (send_api, send_forms):
        sent = send(world, names, shares=shares)
        print(f"{send.__name__}: {sent} requests")
        assert describe_protected(world) == before, send.__name__
    print(f"send_catalog: {send_catalog(world, names)} requests")
    assert describe_protected(world) == before
    send_pushes(world, names)
    assert describe_protected(world) == before
    branches = [ref.removeprefix("refs/heads/") for ref in list_refs()["shop"] if ref.startswith("refs/heads/")]
    branches += DatasetBranch.objects.values_list("name", flat=True)
    assert {name for name in branches if is_like_protected(name)} == set(PROTECTED)


def test_no_name_is_taken_for_a_protected_branch(world: World) -> None:
    check(world, shares=SHARES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_name_at_any_place_is_taken_for_a_protected_branch(world: World) -> None:
    check(world, shares=1)
