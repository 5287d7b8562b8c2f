"""A client that a generator makes of `openapi.json`: nothing of the document is left out, and its calls are understood."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from django.test import Client
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from tests.factories.api_document import OWN_DOCUMENTS
from tests.factories.everything import make_world

pytestmark = [pytest.mark.contract, pytest.mark.django_db]
FILES = {"application/vnd.apache.parquet": "application/octet-stream", "application/jsonl": "application/octet-stream"}
"""Media types of files that clients take as bytes."""
NEEDS_A_KEY = "get_dataset_blame"
"""Reads with a parameter for each column of a key, which no document names."""
NOT_THERE_NOW = {404, 409, 410, 503}
"""Answers about what this world lacks: rows of a comparison, a job runner."""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admin_client: Any) -> Iterator[ModuleType]:
    """Return the generated package; the generator had nothing to say against the document."""
    document = tmp_path / "openapi.json"
    document.write_bytes(admin_client.get(OWN_DOCUMENTS[0]).content)
    names = ConfigFile(post_hooks=[], content_type_overrides=FILES)
    config = Config.from_sources(
        names, MetaType.NONE, document_source=document, file_encoding="utf-8", overwrite=True,
        output_path=tmp_path / "generated_tributary",
    )  # fmt: skip
    assert [f"{problem.header} {problem.detail}" for problem in generate(config=config)] == []
    monkeypatch.syspath_prepend(str(tmp_path))
    package = importlib.import_module("generated_tributary")
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "generated_tributary"]:
        del sys.modules[name]


def list_operations(package: ModuleType) -> list[ModuleType]:
    """Return the module of each operation of a client."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    modules = [importlib.import_module(module.name) for module in found if not module.ispkg]
    return [module for module in modules if hasattr(module, "sync_detailed")]


def ask(request: httpx.Request) -> httpx.Response:
    """Answer a request of the client by Django, in the transaction of the test."""
    address = request.url.raw_path.decode()
    answer: Any = Client().generic(request.method, address, request.content, headers=dict(request.headers))
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    return httpx.Response(answer.status_code, headers=dict(answer.headers), content=content)


def test_every_read_of_a_generated_client_is_understood(home: Path, package: ModuleType) -> None:
    world = make_world()
    client = package.AuthenticatedClient(
        "http://testserver",
        token=world.secrets["admin", ""],
        httpx_args={"transport": httpx.MockTransport(ask)},
    )
    statuses: dict[str, int] = {}
    wrong: list[str] = []
    for module in list_operations(package):
        parameters = inspect.signature(module._get_kwargs).parameters.values()
        needed = [parameter.name for parameter in parameters if parameter.default is parameter.empty]
        values = {name: world.values[name] for name in needed if name in world.values}
        if len(values) < len(needed) or module._get_kwargs(**values)["method"] != "get":
            continue
        answer = module.sync_detailed(client=client, **values)
        name = module.__name__.rpartition(".")[2]
        statuses[name] = int(answer.status_code)
        if answer.parsed is None or answer.status_code not in {200, *NOT_THERE_NOW, 422 * (name == NEEDS_A_KEY)}:
            wrong.append(f"{name}: {answer.status_code} {answer.content[:200]!r}")
    assert wrong == [], "\n".join(wrong)
    assert list(statuses.values()).count(200) > 40, statuses
    builds = builds_of(package, client)
    assert builds
    assert all(isinstance(build.state, package.models.BuildState) for build in builds)


def builds_of(package: ModuleType, client: Any) -> list[Any]:
    """Return the builds that a client lists."""
    listed = importlib.import_module(f"{package.__name__}.api.builds.list_builds").sync(client=client)
    assert isinstance(listed, package.models.PaginatedBuildList)
    return [*listed.results]
