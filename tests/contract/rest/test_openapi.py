"""openapi.json: valid, and of exactly the operations that the public contract promises.

That answers are as described is checked on every answer of the REST API that any test sees: see `api_document`.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from rest_framework.test import APIClient

from tests.factories.api_document import PREFIX, ApiDocument, read_document

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[3]

PULL, DATASET = "/repositories/{}/pulls/{}", "/datasets/{}"
PROMISED = {
    "/tokens": "GET POST",
    "/tokens/{}": "DELETE",
    "/repositories": "GET POST",
    "/repositories/{}": "GET PATCH DELETE",
    "/repositories/{}/branches": "GET POST",
    "/repositories/{}/branches/{}": "GET DELETE",
    "/repositories/{}/commits": "GET POST",
    "/repositories/{}/commits/{}": "GET",
    "/repositories/{}/contents/": "GET",
    "/repositories/{}/contents/{}": "GET",
    "/repositories/{}/compare": "GET",
    "/repositories/{}/jobspecs": "GET",
    "/repositories/{}/members": "GET POST",
    "/repositories/{}/protections": "GET POST",
    "/repositories/{}/webhooks": "GET POST",
    "/repositories/{}/pulls": "GET POST",
    PULL: "GET PATCH",
    f"{PULL}/commits": "GET",
    f"{PULL}/files": "GET",
    f"{PULL}/datasets": "GET",
    f"{PULL}/checks": "GET",
    f"{PULL}/timeline": "GET",
    f"{PULL}/datasets/{{}}/schema": "GET",
    f"{PULL}/datasets/{{}}/rows": "GET",
    f"{PULL}/datasets/{{}}/rows.csv": "GET",
    f"{PULL}/datasets/{{}}/rows.parquet": "GET",
    f"{PULL}/datasets/{{}}/statistics": "GET",
    f"{PULL}/comments": "POST",
    f"{PULL}/suggestions": "POST",
    f"{PULL}/reviews": "POST",
    f"{PULL}/builds": "POST",
    f"{PULL}/close": "POST",
    f"{PULL}/update": "POST",
    f"{PULL}/reopen": "POST",
    f"{PULL}/merge": "POST",
    f"{PULL}/revert": "POST",
    f"{PULL}/restore-branch": "POST",
    "/builds": "GET POST",
    "/builds/{}": "GET",
    "/builds/{}/cancel": "POST",
    "/builds/{}/retry": "POST",
    "/jobs/{}": "GET",
    "/jobs/{}/log": "GET",
    "/datasets": "GET POST",
    DATASET: "GET",
    f"{DATASET}/upload": "POST",
    f"{DATASET}/branches": "GET POST",
    f"{DATASET}/branches/{{}}": "DELETE",
    f"{DATASET}/transactions": "GET POST",
    f"{DATASET}/transactions/{{}}/commit": "POST",
    f"{DATASET}/transactions/{{}}/abort": "POST",
    f"{DATASET}/schema": "GET",
    f"{DATASET}/preview": "GET",
    f"{DATASET}/compare": "GET",
    f"{DATASET}/lineage": "GET",
    f"{DATASET}/changelog": "GET",
    "/users": "GET POST",
    "/groups": "GET POST",
    "/audit": "GET",
}
MORE = {
    "/audit.csv": "GET",
    "/audit.jsonl": "GET",
    "/password": "POST",
    "/profile": "GET",
    "/sessions": "GET DELETE",
    "/sessions/{}": "DELETE",
    "/users/{}": "PATCH",
    "/users/{}/tokens": "GET",
    "/notifications": "GET",
    "/notifications/mark": "POST",
    "/notifications/settings": "GET PATCH",
    "/repositories/{}/watch": "GET PUT DELETE",
    "/repositories/{}/commits/{}/statuses": "GET POST",
    "/repositories/{}/lint": "POST",
    "/repositories/{}/previews": "GET POST",
    "/repositories/{}/previews/{}": "GET",
    "/repositories/{}/previews/{}/cancel": "POST",
    "/repositories/{}/previews/{}/log": "GET",
    "/repositories/{}/previews/{}/rows": "GET",
    "/repositories/{}/previews/{}/difference": "GET",
    "/repositories/{}/queries": "GET POST",
    "/repositories/{}/queries/{}": "GET",
    "/repositories/{}/queries/{}/cancel": "POST",
    "/repositories/{}/queries/{}/rows": "GET",
    "/repositories/{}/queries/{}/difference": "GET",
    "/repositories/{}/members/{}": "DELETE",
    "/repositories/{}/protections/{}": "GET PATCH DELETE",
    "/repositories/{}/webhooks/{}": "GET DELETE",
    "/repositories/{}/webhooks/{}/deliveries": "GET",
    "/repositories/{}/queue": "GET",
    f"{PULL}/queue": "POST DELETE",
    f"{PULL}/comments": "GET",
    f"{PULL}/comments/{{}}": "GET PATCH DELETE",
    f"{PULL}/pending-comments": "GET POST DELETE",
    f"{PULL}/pending-comments/{{}}": "PATCH DELETE",
    "/repositories/{}/labels": "GET POST",
    "/repositories/{}/labels/{}": "DELETE",
    f"{PULL}/labels": "PUT",
    f"{PULL}/assignees": "PUT",
    f"{PULL}/reviewers": "GET POST DELETE",
    f"{PULL}/reviews": "GET",
    f"{PULL}/datasets/{{}}/three-ways": "GET",
    f"{PULL}/datasets/{{}}/spread": "GET",
    f"{PULL}/datasets/{{}}/verdict": "POST",
    f"{PULL}/checks": "POST",
    f"{PULL}/uploads": "GET POST",
    f"{PULL}/conflicts": "GET",
    f"{PULL}/lineage": "GET",
    f"{DATASET}/branches/{{}}": "GET PATCH",
    f"{DATASET}/deleted-branches": "GET",
    f"{DATASET}/deleted-branches/{{}}/restore": "POST",
    f"{DATASET}/transactions/{{}}": "GET",
    f"{DATASET}/trend": "GET",
    f"{DATASET}/compare": "POST",
    f"{DATASET}/compare/cancel": "POST",
    f"{DATASET}/compare/rows.csv": "GET",
    f"{DATASET}/compare/rows.parquet": "GET",
    f"{DATASET}/compare/statistics": "GET",
    f"{DATASET}/changelog": "POST",
    f"{DATASET}/blame": "GET POST",
    f"{DATASET}/watch": "GET PUT DELETE",
}
"""What there is beyond the promise."""


@pytest.fixture(scope="module")
def document() -> ApiDocument:
    return read_document()


def spread(table: dict[str, str]) -> set[tuple[str, str]]:
    return {(method, path) for path, methods in table.items() for method in methods.split()}


def test_the_document_is_valid(document: ApiDocument) -> None:
    assert document.raw["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document.raw).validate()


def test_operations_are_those_of_the_contract(document: ApiDocument) -> None:
    found = {(method, re.sub(r"\{\w+\}", "{}", path.removeprefix(PREFIX))) for method, path in document.operations}
    assert found == spread(PROMISED) | spread(MORE)


def test_every_operation_has_its_own_name_and_says_what_it_does(document: ApiDocument) -> None:
    names = [operation["operationId"] for operation in document.operations.values()]
    assert len(names) == len(set(names))
    assert all(operation["description"] for operation in document.operations.values())


@pytest.mark.django_db
def test_the_served_document_is_this_one(document: ApiDocument) -> None:
    served = APIClient().get(f"{PREFIX}/openapi.json")
    assert served.status_code == 200
    assert served.json() == document.raw
    # Anybody may ask for it, and it takes a third of a second to make.
    began = time.process_time()
    assert all(APIClient().get(f"{PREFIX}/openapi.json").content == served.content for _ in range(20))
    assert time.process_time() - began < 1


READ_AT_ONCE = """
import hashlib, threading
from concurrent.futures import ThreadPoolExecutor
import django
django.setup()
from django.test import RequestFactory
from webapp.core import views
together = threading.Barrier(20)
def read(_number):
    together.wait()
    return hashlib.sha256(views.openapi(RequestFactory().get("/")).content).hexdigest()
with ThreadPoolExecutor(20) as threads:
    print(*set(threads.map(read, range(20))))
"""


@pytest.mark.django_db
def test_first_readers_all_get_the_document(document: ApiDocument, tmp_path: Path) -> None:
    """In a process that has just started: the library that writes the document is not made for threads."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "webapp.config.settings", "TRIBUTARY_HOME": str(tmp_path)}
    command = [sys.executable, "-c", READ_AT_ONCE]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    served = APIClient().get(f"{PREFIX}/openapi.json").content
    assert done.stdout.split() == [hashlib.sha256(served).hexdigest()], done.stderr


def test_lists_have_the_envelope_and_their_parameters(document: ApiDocument) -> None:
    schemas = document.raw["components"]["schemas"]
    lists = {
        (method, path): operation
        for (method, path), operation in document.operations.items()
        if "/Paginated" in str(operation["responses"].get("200", {}))
    }
    assert len(lists) >= 20
    for (_method, path), operation in lists.items():
        (content,) = operation["responses"]["200"]["content"].values()
        envelope = schemas[content["schema"]["$ref"].rpartition("/")[2]]
        assert set(envelope["properties"]) == set(envelope["required"]) == {"results", "next", "previous"}, path
        assert {"limit", "cursor"} <= {one["name"] for one in operation["parameters"]}, path


def test_every_list_of_the_contract_is_paged(document: ApiDocument) -> None:
    """What answers with several things of one kind does so in pages, except for a folder and a page of rows."""
    bare = {
        path
        for (method, path), operation in document.operations.items()
        if method == "GET"
        for answer in [operation["responses"].get("200", {}).get("content", {}).get("application/json", {})]
        if answer.get("schema", {}).get("type") == "array"
    }
    assert bare == {f"{PREFIX}/repositories/{{repo}}/contents/"}
