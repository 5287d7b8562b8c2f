"""Bodies hold known members only: a misspelled guard is refused by name, and nothing has changed."""

from __future__ import annotations

import codecs
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from tests.contract.rest.test_matrix import BY_PASSWORD_OR_SESSION, NEEDED_ROLE
from tests.factories.api_document import PREFIX, read_document
from tests.factories.everything import BODIES, DATASET, PULL, REPOSITORY, World, list_operations, make_world

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
Change = dict[str, Any]
OBJECTS: dict[str, Any] = {
    f"POST {REPOSITORY}/protections": {
        "branch": "fix",
        "paths": [{"pattern": "a/*", "group": "of the provider", "approvals": 1}],
    },
    f"POST {REPOSITORY}/previews": {"branch": "fix", "file": "a.py", "files": [{"path": "a.py", "text": "X = 1\n"}]},
    f"POST {PULL}/comments": {"body": "b", "anchor": {"dataset": "/shop/raw"}},
    f"POST {PULL}/update": {"resolutions": [{"path": "notes.md", "take": "ours"}]},
}
"""Bodies with inner objects, in place of the smallest ones."""
SILENT = {"accounts.auditentry", "accounts.token", "sessions.session", "accounts.usersession", "core.idempotencyrecord"}
"""Records of the request itself."""


@pytest.fixture
def world(home: Path) -> World:
    return make_world()


def list_json_operations() -> list[tuple[str, str]]:
    """List the operations that take a JSON body."""
    operations = read_document().operations
    return [
        (method, path)
        for method, path in list_operations()
        if "application/json" in operations[method, path].get("requestBody", {}).get("content", {})
    ]


def read_schema(method: str, path: str) -> dict[str, Any]:
    """Return the schema of an operation's body."""
    body = read_document().operations[method, path]["requestBody"]["content"]["application/json"]["schema"]
    return resolve(body)


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference to a named schema."""
    for part in [schema, *schema.get("oneOf", []), *schema.get("allOf", [])]:
        if "$ref" in part:
            found: dict[str, Any] = read_document().raw["components"]["schemas"][part["$ref"].rpartition("/")[2]]
            return found
    return schema


def list_objects(schema: dict[str, Any], body: Change) -> Iterator[tuple[dict[str, Any], Change]]:
    """List the objects of a body that have named members, each with its schema."""
    yield schema, body
    for name, value in body.items():
        inner = resolve(schema["properties"][name])
        if isinstance(value, list) and value and isinstance(value[0], dict):
            yield from list_objects(resolve(inner["items"]), value[0])
        elif isinstance(value, dict) and "properties" in inner:
            yield from list_objects(inner, value)


def misspell(name: str) -> list[str]:
    """Write a name as a typo, and as other APIs spell it."""
    first, *others = name.split("_")
    camel = first + "".join(other.title() for other in others)
    return [name + name[-1], name.upper() if camel == name else camel]


def list_wrong_bodies(method: str, path: str) -> Iterator[tuple[str, str, Change]]:
    """List bodies with one unknown member: its name, the name that was meant, and the body."""
    operation = f"{method} {path}"
    plain = OBJECTS.get(operation, BODIES.get(operation, {}))
    for number in range(len(list(list_objects(read_schema(method, path), plain)))):
        body = json.loads(json.dumps(plain))
        schema, where = list(list_objects(read_schema(method, path), body))[number]
        kept = dict(where)
        where["qqqq"] = 1
        yield "qqqq", "", body
        for name in schema["properties"]:
            for wrong in misspell(name):
                where.clear()
                where.update(kept)
                where[wrong] = where.pop(name, 1)
                yield wrong, name, body


def read_rows() -> dict[str, list[Any]]:
    """Read all rows of the database but the records of requests."""
    models = [model for model in apps.get_models() if model._meta.label_lower not in SILENT]
    return {model._meta.label: list(model.objects.order_by("pk").values_list()) for model in models}  # type: ignore[attr-defined]


def read_heads(world: World) -> Any:
    """Read the branches of the repository."""
    address = world.address(f"{REPOSITORY}/branches")
    found = Client().get(address, headers=world.bearer("reader", "")).json()["results"]
    return {branch["name"]: branch["head"] for branch in found}


def test_an_unknown_member_of_any_body_is_refused_by_name(world: World) -> None:
    operations = [item for item in list_json_operations() if " ".join(item) not in BY_PASSWORD_OR_SESSION]
    assert len(operations) >= 40
    rows, heads, wrong, sent = read_rows(), read_heads(world), [], 0
    for method, path in operations:
        role = NEEDED_ROLE.get(f"{method} {path}", "writer")
        world.values["pending_id"] = world.own_pending["reader"]
        for name, meant, body in list_wrong_bodies(method, path):
            answer = Client().generic(
                method, world.address(path), json.dumps(body), "application/json", headers=world.bearer(role, "")
            )
            sent += 1
            problem = answer.json() if answer.content else {}
            named = any(place.split(".")[-1] == name for place in problem.get("errors", {}))
            if (answer.status_code, problem.get("code")) != (400, "unknown_member") or not named:
                wrong.append((method, path, body, answer.status_code))
            elif repr(name) not in problem["detail"] or repr(meant or name) not in problem["detail"]:
                wrong.append((method, path, body, problem["detail"]))
    assert sent > 200
    assert wrong == [], "\n".join(map(str, wrong))
    assert (read_rows(), read_heads(world)) == (rows, heads)


def test_an_unknown_member_of_what_takes_a_password_is_refused(world: World) -> None:
    client = Client()
    client.force_login(world.users["nobody"])
    for operation in BY_PASSWORD_OR_SESSION:
        path = operation.partition(" ")[2]
        body = {"name": "t", "scope": ["read"], "current_password": "a", "password": "b", "passwords": "c"}
        answer = client.post(path, body, "application/json")
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_member"), path


def test_a_repeated_member_is_refused_by_name(world: World) -> None:
    heads, headers = read_heads(world), world.bearer("writer", "")
    for path, text, name in (
        ("branches", b'{"name": "b4", "name": "b5"}', "name"),
        ("branches", b'{"name": "b4", "name": "b4"}', "name"),
        ("branches", b'{"name": "b4", "start_point": "fix", "n\\u0061me": "b5"}', "name"),
        (
            "commits",
            b'{"branch": "fix", "message": "m", "changes": [{"path": "a", "content": "b", "path": "c"}]}',
            "path",
        ),
    ):
        address = world.address(f"{REPOSITORY}/{path}")
        answer = Client().generic("POST", address, text, "application/json", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "repeated_member"), text
        assert answer.json()["errors"].keys() == {name}
    assert read_heads(world) == heads


def test_a_byte_order_mark_is_skipped(world: World) -> None:
    address, headers = world.address(f"{REPOSITORY}/branches"), world.bearer("writer", "")
    text = codecs.BOM_UTF8 + b'{"name": "marked", "start_point": "fix"}'
    assert Client().generic("POST", address, text, "application/json", headers=headers).status_code == 201
    answer = Client().generic("POST", address, codecs.BOM_UTF8 * 2 + b"{}", "application/json", headers=headers)
    assert answer.status_code == 400


def test_a_compressed_body_is_named_as_such(world: World) -> None:
    text = gzip.compress(b'{"name": "packed", "start_point": "fix"}')
    headers, heads = world.bearer("writer", ""), read_heads(world)
    branches, upload = world.address(f"{REPOSITORY}/branches"), world.address(f"{DATASET}/upload?branch=fix")
    for coding in ("gzip", "br", "identity, gzip"):
        for address, kind in ((branches, "application/json"), (upload, MULTIPART_CONTENT)):
            packed = {**headers, "Content-Encoding": coding}
            answer = Client().generic("POST", address, text, kind, headers=packed)
            assert (answer.status_code, answer.json()["code"]) == (415, "compressed_body")
            assert coding in answer.json()["detail"]
    assert read_heads(world) == heads
    plain = {**headers, "Content-Encoding": "identity"}
    assert Client().post(branches, {"name": "plain"}, "application/json", headers=plain).status_code == 201


def test_text_is_read_in_utf_8_alone(world: World) -> None:
    """Python reads more charsets, and some of them take hours for a body of a megabyte."""
    slow = b"a-" + b"a" * 500_000
    for charset in ("punycode", "utf-16", "unicode_escape", "latin-1"):
        for address, kind in (
            (world.address(f"{REPOSITORY}/branches"), f"application/json; charset={charset}"),
            ("/login", f"{MULTIPART_CONTENT}; charset={charset}"),
        ):
            content = encode_multipart(BOUNDARY, {"username": slow}) if address == "/login" else slow
            answer = Client().generic("POST", address, content, kind, headers=world.bearer("writer", ""))
            assert answer.status_code == 415, (address, charset)
            assert charset in answer.content.decode()
    text, headers = b'{"name": "plain", "start_point": "fix"}', world.bearer("writer", "")
    kind = "application/json; charset=UTF8"
    address = world.address(f"{REPOSITORY}/branches")
    assert Client().generic("POST", address, text, kind, headers=headers).status_code == 201


def test_a_body_is_an_object(world: World) -> None:
    address, headers = world.address(f"{REPOSITORY}/branches"), world.bearer("writer", "")
    for text in (b"[]", b'[{"name": "b"}]', b'"name"', b"null", b"1"):
        answer = Client().generic("POST", address, text, "application/json", headers=headers)
        assert (answer.status_code, answer.json()["detail"]) == (400, "The body is a JSON object."), text


@pytest.mark.parametrize("depth", [70, 900, 100_000])
def test_body_rejects_deep_nesting(world: World, depth: int) -> None:
    address, headers = world.address(f"{REPOSITORY}/branches"), world.bearer("writer", "")
    text = b'{"name": ' + b"[" * depth + b"]" * depth + b"}"
    answer = Client().generic("POST", address, text, "application/json", headers=headers)
    assert (answer.status_code, "nested too deeply" in answer.json()["detail"]) == (400, True)


def test_an_upload_has_the_field_file_alone_once(world: World) -> None:
    rows, headers = read_rows(), world.bearer("writer", "")
    address = world.address(f"{DATASET}/upload?branch=fix")
    first, second = SimpleUploadedFile("one.csv", b"id\n1\n"), SimpleUploadedFile("two.csv", b"id\n2\n")
    for form, code, name in (
        ({"branch": "fix", "file": first}, "unknown_member", "branch"),
        ({"mode": "append", "file": first}, "unknown_member", "mode"),
        ({"files": first}, "unknown_member", "files"),
        ({"file": first, "files": second}, "unknown_member", "files"),
        ({"file": [first, second]}, "repeated_member", "file"),
    ):
        content = encode_multipart(BOUNDARY, form)
        answer = Client().generic("POST", address, content, MULTIPART_CONTENT, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, code), form
        assert answer.json()["errors"].keys() == {name}
    assert read_rows() == rows


def test_what_deletes_takes_no_body(world: World) -> None:
    deletions = [path for method, path in list_operations() if method == "DELETE"]
    assert len(deletions) >= 12
    rows, heads = read_rows(), read_heads(world)
    for path in deletions:
        headers = world.bearer("admin", "")
        answer = Client().generic(
            "DELETE", world.address(path), b'{"data": "keep"}', "application/json", headers=headers
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "body_not_taken"), path
    assert (read_rows(), read_heads(world)) == (rows, heads)


def test_a_protection_keeps_its_branch(world: World) -> None:
    headers = world.bearer("maintainer", "")
    here = world.address(f"{REPOSITORY}/protections")
    assert Client().post(here, {"branch": "fix"}, "application/json", headers=headers).status_code == 201
    answer = Client().patch(f"{here}/fix", {"branch": "master"}, "application/json", headers=headers)
    assert (answer.status_code, answer.json()["errors"].keys()) == (422, {"branch"})
    assert Client().patch(f"{here}/fix", {"branch": "fix"}, "application/json", headers=headers).status_code == 200


def test_a_key_of_a_map_is_no_member(world: World) -> None:
    anchor = {"dataset": "/shop/raw", "key": {"any": 1}, "column": "id"}
    answer = Client().post(
        world.address(f"{PULL}/comments"),
        {"body": "b", "anchor": anchor},
        "application/json",
        headers=world.bearer("reader", ""),
    )
    assert answer.status_code == 201


def test_names_of_any_text_are_answered(world: World) -> None:
    address, headers = world.address(f"{REPOSITORY}/branches"), world.bearer("writer", "")
    for name in ("\ud800", "x" * 100_000, "", "a\n\x00"):
        answer = Client().post(address, {name: 1}, "application/json", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_member")
        assert len(answer.content) < 2_000
    answer = Client().post(address, {str(n): 1 for n in range(9_000)}, "application/json", headers=headers)
    assert (answer.status_code, len(answer.content) < 10_000) == (400, True)


def test_who_may_not_write_is_told_so_first(world: World) -> None:
    answer = Client().post(f"{PREFIX}/groups", {"name": "g", "user": []}, "application/json", headers={})
    assert answer.status_code == 401
