"""Query parameters: an empty, repeated or unknown one is refused by name, and nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from tests.contract.rest.test_exact_bodies import read_heads, read_rows
from tests.contract.rest.test_matrix import BY_PASSWORD_OR_SESSION, NEEDED_ROLE
from tests.factories.api_document import PREFIX, read_document
from tests.factories.everything import BODIES, DATASET, REPOSITORY, Upload, World, list_operations, make_world
from webapp.accounts.rules.scopes import READING_METHODS

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
MAY_BE_EMPTY = {"q", "key.<column>"}


@pytest.fixture
def world(home: Path) -> World:
    return make_world()


def list_parameters() -> list[tuple[str, str, dict[str, Any]]]:
    """List method, path and description of each query parameter."""
    operations = read_document().operations
    return [
        (method, path, parameter)
        for method, path in list_operations()
        for parameter in operations[method, path].get("parameters", [])
        if parameter["in"] == "query"
    ]


def call(world: World, method: str, path: str, query: str) -> Any:
    """Call an operation with the least role that it asks for."""
    operation = f"{method} {path}"
    role = NEEDED_ROLE.get(operation, "reader" if method in READING_METHODS else "writer")
    body = BODIES.get(operation, {})
    content, kind = b"", "application/json"
    if isinstance(body, Upload):
        content, kind = encode_multipart(BOUNDARY, body), MULTIPART_CONTENT
    own = {"preview_id": world.own_preview.get(role, 0), "pending_id": world.own_pending[role]}
    world.values |= own
    address = f"{world.address(path)}?{query}"
    return Client().generic(method, address, content, kind, headers=world.bearer(role, ""))


def test_every_empty_or_repeated_parameter_is_refused_by_name(world: World) -> None:
    parameters = list_parameters()
    assert len(parameters) > 150
    rows, heads, wrong = read_rows(), read_heads(world), []
    for method, path, parameter in parameters:
        name = parameter["name"].replace("<column>", "id")
        cases = {} if parameter["name"] in MAY_BE_EMPTY else {f"{name}=": "empty_parameter"}
        if parameter["schema"].get("type") != "array":
            cases[f"{name}=a&x=1&{name}="] = "repeated_parameter"
        for query, code in cases.items():
            answer = call(world, method, path, query)
            problem = answer.json() if answer.status_code >= 400 else {}
            expected = (400, code, {name})
            if (answer.status_code, problem.get("code"), set(problem.get("errors", {}))) != expected:
                wrong.append(f"{method} {path}?{query}: {answer.status_code} {problem}")
            elif repr(name) not in problem["detail"]:
                wrong.append(f"{method} {path}?{query}: {problem['detail']}")
    assert wrong == [], "\n".join(wrong)
    assert (read_rows(), read_heads(world)) == (rows, heads)


def test_an_empty_variable_of_a_script_uploads_nothing(world: World) -> None:
    rows = read_rows()
    for query in (
        "branch=",
        "branch=fix&branch=master",
        "branch=fix&mode=",
        "branch=fix&transaction=",
        "=",
        "a=&branch=fix",
    ):
        answer = call(world, "POST", f"{DATASET}/upload", query)
        assert answer.json()["code"] in ("empty_parameter", "repeated_parameter"), query
    assert read_rows() == rows


def test_operations_without_parameters_refuse_them_too(world: World) -> None:
    for method, path in list_operations():
        if method in READING_METHODS:
            assert call(world, method, path, "other").json()["code"] == "empty_parameter", path


def test_documented_parameters_can_be_repeated_or_empty(world: World) -> None:
    ends = "from=master&to=fix"
    for method, path, query in (
        ("GET", f"{REPOSITORY}/branches", "q="),
        ("GET", f"{DATASET}/compare", f"{ends}&keys=id&keys=name"),
        ("GET", f"{DATASET}/changelog", "keys=id&keys=name"),
        ("GET", f"{DATASET}/blame", "key.name=&null=id&null=amount"),
        ("DELETE", f"{REPOSITORY}/pulls/{{number}}/reviewers", "user=a-reader&user=a-writer"),
    ):
        answer = call(world, method, path, query)
        assert answer.status_code != 400, (path, query, answer.content)


def test_the_strangers_answer_tells_nothing_of_parameters(world: World) -> None:
    assert Client().get(f"{world.address(REPOSITORY)}?a=").status_code == 401


def list_callable_operations() -> list[tuple[str, str]]:
    """List the operations that a token can call."""
    return [item for item in list_operations() if " ".join(item) not in BY_PASSWORD_OR_SESSION]


def test_every_unknown_parameter_is_refused_by_name(world: World) -> None:
    operations = list_callable_operations()
    assert len(operations) > 120
    documented = read_document().operations
    rows, heads, wrong = read_rows(), read_heads(world), []
    for method, path in operations:
        parameters = documented[method, path].get("parameters", ())
        names = {parameter["name"] for parameter in parameters if parameter["in"] == "query"}
        for name in {"xyzzy", "format", "page", "limit"} - names:
            answer = call(world, method, path, f"{name}=1")
            problem = answer.json() if answer.status_code >= 400 else {}
            if (answer.status_code, problem.get("code")) != (400, "unknown_parameter"):
                wrong.append(f"{method} {path}?{name}=1: {answer.status_code} {problem}")
            elif list(problem["errors"]) != [name] or repr(name) not in problem["detail"]:
                wrong.append(f"{method} {path}?{name}=1: {problem}")
    assert wrong == [], "\n".join(wrong)
    assert (read_rows(), read_heads(world)) == (rows, heads)


def test_every_documented_parameter_is_known(world: World) -> None:
    wrong = []
    for method, path, parameter in list_parameters():
        schema = parameter["schema"]
        value = next(iter(schema.get("enum", ())), schema.get("default", 1))
        answer = call(world, method, path, f"{parameter['name'].replace('<column>', 'id')}={value}")
        if answer.status_code == 400 and answer.json()["code"] == "unknown_parameter":
            wrong.append(f"{method} {path}?{parameter['name']}: {answer.json()}")
    assert wrong == [], "\n".join(wrong)


def test_the_nearest_known_parameter_is_named(world: World) -> None:
    rows = read_rows()
    for query, name, hint in (
        ("brnch=fix", "brnch", "Did you mean 'branch'?"),
        ("Branch=fix", "Branch", "Did you mean 'branch'?"),
        ("branch=fix&tipes=1", "tipes", "Did you mean 'types'?"),
        ("xyzzy=1", "xyzzy", "Known: branch, delimiter, header, mode, transaction, types."),
    ):
        problem = call(world, "POST", f"{DATASET}/upload", query).json()
        assert (problem["status"], problem["errors"]) == (400, {name: [hint]}), query
        assert problem["detail"] == f"Unknown parameter {name!r}. {hint}"
    problem = call(world, "GET", f"{PREFIX}/profile", "page=2").json()
    assert problem["detail"] == "Unknown parameter 'page'. None is taken here."
    assert read_rows() == rows


def test_unknown_parameters_of_head_or_password_are_refused(world: World) -> None:
    assert call(world, "HEAD", f"{REPOSITORY}/branches", "brnch=fix").status_code == 400
    client = Client()
    client.force_login(world.users["nobody"])
    for operation in BY_PASSWORD_OR_SESSION:
        answer = client.post(f"{operation.partition(' ')[2]}?xyzzy=1", {}, "application/json")
        assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter"), operation


def test_a_method_that_is_not_there_stays_a_405(world: World) -> None:
    assert call(world, "PUT", f"{REPOSITORY}/branches", "xyzzy=1").status_code == 405


def test_pages_and_the_catalog_ignore_unknown_parameters(world: World) -> None:
    headers = world.bearer("reader", "")
    for path in ("/iceberg/v1/config", "/iceberg/v1/namespaces", "/iceberg/v1/namespaces/shop/tables/raw"):
        assert Client().get(f"{path}?xyzzy=1", headers=headers).status_code == 200, path
    browser = Client()
    browser.force_login(world.users["reader"])
    for path in ("/", "/r/shop", "/d/shop/raw", "/builds"):
        assert browser.get(f"{path}?utm_source=mail").status_code == 200, path
