"""Ways out of a folder, in two hundred spellings, in every part of an address that takes a text: none leads to a file.

Addresses come from the table of addresses, from openapi.json, and from the catalog's list of endpoints.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from django.db import transaction
from django.test import Client

from tests.factories.api_document import PREFIX, read_document
from tests.factories.everything import World, list_operations, list_pages, make_world
from tests.factories.routes import list_routes, share_out
from tests.factories.rows import list_files
from webapp.catalog.rules.endpoints import ENDPOINTS
from webapp.core.errors import AppError
from webapp.repositories.models import Repository
from webapp.repositories.views import git_http

pytestmark = [pytest.mark.contract, pytest.mark.django_db, pytest.mark.timeout(900)]
NAME = "canary.txt"
UPS = (
    "../", "%2e%2e/", "..%2f", "%2e%2e%2f", "%252e%252e%252f", "..%5c", "..\\", "..%c0%af", "..%ef%bc%8f", "....//",
    "..;/", ".%00./", "..%09/", "%c0%ae%c0%ae/", "./../", "x/../../", "..%u2215", "%uff0e%uff0e/", "..//",
)  # fmt: skip
DEPTHS = (1, 2, 3, 4, 6, 9)
FIRST = ("", "master/", "fix/docs/", "/", "%2f", "C:\\")
SHARES = 100


def list_spellings(canaries: list[Path]) -> list[str]:
    """Two hundred ways to say where a canary is."""
    spellings = [first + up * depth + NAME for up in UPS for depth in DEPTHS for first in FIRST[: 1 + depth % 2]]
    for path in canaries:
        plain = quote(str(path))
        spellings += [plain, f"/{plain}", quote(plain, safe=""), f"file://{plain}", f"{plain}%00.md", f"~/..{plain}"]
    spellings += [f"{first}{'../' * depth}etc/passwd" for first in FIRST for depth in (4, 9)]
    return spellings[:200]


class Canaries:
    """Files beside everything that is served, and the text that none of them may show."""

    def __init__(self, home: Path) -> None:
        self.text = f"canary-{secrets.token_hex(16)}"
        folders = [home.parent, home, home / "warehouse", Repository.objects.get(name="shop").path, home / "logs"]
        self.paths = [folder / NAME for folder in folders]
        for path in self.paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text)

    def is_told(self, content: bytes, headers: str) -> bool:
        """Whether an answer holds what a file says."""
        text = content.decode("utf-8", "replace") + headers
        return self.text in text or "root:x:0:0" in text

    @property
    def are_there(self) -> bool:
        """Whether nothing was removed or written over."""
        return all(path.read_text() == self.text for path in self.paths)


@pytest.fixture
def world(home: Path) -> World:
    return make_world()


@pytest.fixture
def canaries(home: Path, world: World) -> Canaries:
    return Canaries(home)


def fill(world: World, address: str, name: str, spelling: str) -> str:
    """The address with one variable as it is spelled and the others as they are."""
    there, _, rest = address.partition(f"{{{name}}}")
    return world.address(there) + spelling + world.address(rest)


def list_places(world: World) -> Iterator[tuple[str, str]]:
    """Every part of an address that takes a text: the address, and its variable or query."""
    for route in list_routes():
        # Streams need the event loop; they look a job up as its log's download does.
        yield from ((route.address, name) for name in route.texts if not route.address.startswith("/events/"))
    document = read_document()
    for method, path in list_operations():
        parameters = document.operations[method, path].get("parameters", ())
        queries = [one["name"] for one in parameters if one["in"] == "query" and one["schema"].get("type") == "string"]
        yield from ((f"{path}?{name}={{{name}}}", name) for name in queries if method == "GET")
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("/{prefix}", "").replace("{plan-id}", "{plan}")
        names = re.findall(r"\{(\w+)\}", path)
        yield from ((f"/iceberg{path}", name) for name in names)
    yield from (("/static/{file}", "file"), ("/{file}", "file"))


def attack(world: World, canaries: Canaries, *, shares: int) -> int:
    """Send the spellings to all places, each place one share of them; returns how many were sent."""
    browser = Client(raise_request_exception=False)
    browser.force_login(world.users["admin"])
    world.values |= {"namespace": "shop", "table": "raw", "view": "v", "plan": "p"}
    spellings = list_spellings(canaries.paths)
    assert len(spellings) == 200
    leaks, sent = [], 0
    for number, (address, name) in enumerate(list_places(world)):
        is_api = address.startswith(("/api/", "/iceberg"))
        headers = world.bearer("admin", "") if is_api else {}
        client = Client(raise_request_exception=False) if is_api else browser
        for place, spelling in enumerate(share_out(spellings, number=number, of=shares)):
            url = fill(world, address, name, spelling)
            for method in ("GET", *(("DELETE", "POST") if place == 0 else ())):
                with transaction.atomic():
                    answer = client.generic(method, url, b"{}", "application/json", headers=headers)
                    transaction.set_rollback(True)
                content = b"" if getattr(answer, "is_async", False) else answer.getvalue()
                sent += 1
                # Nothing reads rows here: previews are a 503.
                if answer.status_code in (500, 502) or canaries.is_told(content, str(answer.headers)):
                    leaks.append((method, url, answer.status_code))
    assert leaks == []
    return sent


def attack_git(world: World, canaries: Canaries) -> None:
    """Git's addresses, which Django does not see: none is a repository or a file of one."""
    for spelling in list_spellings(canaries.paths):
        for path in (f"/git/{spelling}.git/info/refs", f"/git/shop.git/{spelling}", f"/git/{spelling}/objects/info"):
            scope = {"method": "GET", "path": path, "query_string": b"service=git-upload-pack", "headers": []}
            with pytest.raises(AppError):
                call = git_http._Call.of(scope)
                call.check_route()
                git_http._open(world_principal(world), call.name, pushes=False)


def world_principal(world: World) -> object:
    from webapp.accounts.queries import principal_for_user

    return principal_for_user(world.users["admin"])


def check(world: World, canaries: Canaries, home: Path, *, shares: int) -> None:
    outside = {name: size for name, size in list_files(home.parent).items() if not name.startswith("home/")}
    sent = attack(world, canaries, shares=shares)
    attack_git(world, canaries)
    print(f"{sent} requests, {len(list(list_places(world)))} places")
    assert canaries.are_there
    assert {name: size for name, size in list_files(home.parent).items() if not name.startswith("home/")} == outside


def test_no_spelling_leads_out_of_a_folder(world: World, canaries: Canaries, home: Path) -> None:
    check(world, canaries, home, shares=SHARES)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_no_spelling_at_any_place_leads_out_of_a_folder(world: World, canaries: Canaries, home: Path) -> None:
    check(world, canaries, home, shares=1)


def test_a_number_beyond_all_numbers_names_nothing(world: World) -> None:
    """One at a time, where all else that the address names is there: each is looked up by itself."""
    client = Client(raise_request_exception=False)
    client.force_login(world.users["admin"])
    header = world.bearer("admin", "")
    wrong = []
    for method, path in [*list_operations(), *(("GET", page) for page in list_pages())]:
        for name in re.findall(r"\{(\w+)\}", path):
            if not isinstance(world.values.get(name), int):
                continue
            address = world.address(path.replace(f"{{{name}}}", "9" * 30))
            headers = header if path.startswith(PREFIX) else {}
            status = client.generic(method, address, headers=headers).status_code
            if status < 400 or status >= 500:
                wrong.append(f"{method} {address}: {status}")
    assert wrong == []
