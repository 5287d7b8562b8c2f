"""What every test shares: a home of its own, made before Django reads its settings, and a few people."""

from __future__ import annotations

import gc
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from xdist.scheduler import LoadScopeScheduling

from tests.factories.databases import SHARED, fill_memory

gc.disable()
_ROOT = Path(__file__).resolve().parents[1]
_HOME = tempfile.mkdtemp(prefix="tributary-test-")
os.environ["TRIBUTARY_HOME"] = _HOME
os.environ["TRIBUTARY_DEMO"] = "0"
os.environ.setdefault(SHARED, _HOME)  # workers get the environment of the process that starts them
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Playwright's event loop runs beside the ORM in one thread

_TOGETHER = {
    # One after the other: two that load their demo at once take longer than anybody waits.
    "tests/browser/days/": "installation",
    "tests/browser/": "installation",
    "tests/spark/engine/": "Spark",
    "tests/contract/catalog/test_catalog_spark": "Spark",
    "tests/contract/catalog/test_catalog_pyiceberg": "Spark",
    "tests/contract/catalog/test_catalog_locations": "Spark",
    "tests/contract/catalog/test_partition_names": "Spark",
}
"""What one worker runs, by how paths begin: its tests share what takes long to start."""
_SERVED = {
    "tests/integration/builds/": r"\bstack: Stack",
    "tests/integration/pulls/": r"\b(stack: Stack|ask: Call)",
    "tests/contract/catalog/": r"\b(server: Server|namespace: str|on: Callable)",
}
"""Folders with one installation or server, and what stands in those of their files that share it."""
_LONG = (
    *_TOGETHER,
    "tests/integration/builds/",
    "tests/integration/pulls/",
    "tests/integration/test_postgres.py",
    "tests/faults/",
    "tests/contract/",
    "tests/spark/",
    "tests/integration/",
    "tests/fuzz/",
    "tests/property/",
)
_HOURS = (
    "tests/faults/test_long_use.py",
    "tests/spark/engine/test_random_histories.py",
    "tests/property/test_catalog_lens.py",
    "tests/fuzz/",
    "tests/contract/catalog/test_catalog_writers.py",
    "tests/faults/",
    "tests/browser/",
    "tests/property/datasets/",
    "tests/spark/builds/",
    "tests/spark/",
    "tests/property/",
)
"""What takes longest in the long tier, by how paths begin; each file but those of the browser has a worker of its own."""

# How long an example takes says how busy the machine is, and nothing of what is tested.
hypothesis_settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("patient")

if TYPE_CHECKING:
    from rest_framework.test import APIClient

    from webapp.accounts.models import User
    from webapp.core.principals import Principal


def pytest_unconfigure() -> None:
    """Remove the session's home."""
    shutil.rmtree(_HOME, ignore_errors=True)


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Workers take whole files; what one installation or one catalog serves for several files stays in one worker."""

    def _split_scope(self, nodeid: str) -> str:
        path: str = nodeid.partition("::")[0]
        is_alone = _is_long(self.config) and not path.startswith("tests/browser/")
        return path if is_alone else _find_group(path)


def _is_long(config: pytest.Config) -> bool:
    """Whether this is a run of `make soak`."""
    return bool(config.option.markexpr == "soak")


@cache
def _find_group(path: str) -> str:
    """What the tests of a file run together with; the file alone, where it shares nothing."""
    if group := next((name for start, name in _TOGETHER.items() if path.startswith(start)), ""):
        return group
    for folder, names in _SERVED.items():
        if path.startswith(folder) and re.search(names, text := (_ROOT / path).read_text()):
            return path if re.search(r"def (stack|server)\(", text) else f"served by {folder}"
    return path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Scheduling:
    """Share the tests among the workers."""
    config.option.loadscopereorder = False
    return _Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with what takes long, so that no worker ends long after the other, and end with an installation at once."""
    items.sort(key=_find_hours if _is_long(config) else _find_place)


def _find_hours(item: pytest.Item) -> tuple[int, str]:
    path = item.nodeid.partition("::")[0]
    return _rank(path, _HOURS), path


def _find_place(item: pytest.Item) -> tuple[int, bool, str]:
    path = item.nodeid.partition("::")[0]
    group = _find_group(path)
    return _rank(path, _LONG), group == path, "" if group == path else group


def _rank(path: str, starts: Sequence[str]) -> int:
    """The place of the first of these with which a path begins, or behind all."""
    return next((number for number, start in enumerate(starts) if path.startswith(start)), len(starts))


def pytest_collection_finish() -> None:
    """Take all that collecting made out of what the garbage collector looks at, over and over, until tests are over."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> Iterator[None]:
    """The database of a worker is a copy of the one that the run has migrated; a run without workers migrates its own."""
    from django.db.backends.sqlite3.creation import DatabaseCreation

    create, open_ones = DatabaseCreation._create_test_db, []

    def create_filled(self: DatabaseCreation, *options: Any, **more: Any) -> str:
        name = create(self, *options, **more)
        open_ones.append(fill_memory(name))
        return name

    with pytest.MonkeyPatch.context() as patch:
        if "PYTEST_XDIST_WORKER" in os.environ:
            patch.setattr(DatabaseCreation, "_create_test_db", create_filled)
        yield
    for connection in open_ones:
        connection.close()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A database that is emptied quickly after each test that commits.

    PostgreSQL drops none that is in use, and threads of servers under test keep their connections.
    """
    from django.contrib.contenttypes.management import create_contenttypes
    from django.db import connection
    from django.db.models.signals import post_migrate

    from tests.factories.postgres import list_deletions

    # Permissions and types of Django's, which nobody asks for: each time a database was emptied they were made anew.
    assert post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    assert post_migrate.disconnect(create_contenttypes)
    if connection.vendor != "postgresql":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(connection.ops), "sql_flush", list_deletions)
        yield
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


@pytest.fixture(scope="session", autouse=True)
def _answers_as_described() -> Iterator[None]:
    """Every answer of the REST API that any test sees is what openapi.json says of it."""
    from tests.factories.api_document import checking_answers

    with checking_answers():
        yield


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    """Passwords are hashed as ever, in one round: a million of them for each person of each test is most of its time.

    Installations that tests start in processes of their own keep the million.
    """
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PBKDF2PasswordHasher, "iterations", 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def _tables_read_once() -> Iterator[None]:
    """Django parses the SQL of each SQLite table whenever its constraints are asked for, which `fsck` does for all tables."""
    from copy import deepcopy
    from functools import cache

    from django.db.backends.sqlite3.introspection import DatabaseIntrospection

    parse = DatabaseIntrospection._parse_table_constraints

    @cache
    def parse_once(sql: str, columns: tuple[str, ...]) -> Any:
        return parse(DatabaseIntrospection(None), sql, list(columns))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            DatabaseIntrospection,
            "_parse_table_constraints",
            lambda _self, sql, columns: deepcopy(parse_once(sql, tuple(columns))),
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _static_files_once() -> Iterator[None]:
    """Every new client of a test has middleware of its own, and WhiteNoise would look through all files for each."""
    from whitenoise import WhiteNoise

    look_through, files = WhiteNoise.update_files_dictionary, {}

    def share(self: WhiteNoise, root: str, prefix: str) -> None:
        if (root, prefix) not in files:
            look_through(self, root, prefix)
            files[root, prefix] = dict(self.files)
        self.files |= files[root, prefix]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoise, "update_files_dictionary", share)
        yield


@pytest.fixture(autouse=True)
def _clock_without_past(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that sets the clock back makes the tests after it no more cautious."""
    from webapp.core import clock

    monkeypatch.setattr(clock, "_cautious", clock._Cautious())


@pytest.fixture(autouse=True)
def _readings_of_this_test() -> None:
    """What an earlier test has read is not written into the audit log of this one."""
    from webapp.accounts.services import readings

    with readings._lock:
        readings._pending.clear()


@pytest.fixture
def silent_bell(tmp_path: Path) -> Iterator[None]:
    """A broker of this test's own: a sweep rings for nothing while what earlier tests left for no worker waits."""
    from tests.factories.broker import ringing

    with ringing("", {"path": str(tmp_path / "messages.sqlite3")}, "webapp.runtime.broker:Transport"):
        yield


@pytest.fixture(autouse=True)
def _damage_is_named(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that is marked with the damage that it does has had fsck name it."""
    from tests.factories.fsck import named

    named.clear()
    yield
    marker = request.node.get_closest_marker("damage")
    assert marker is None or named >= set(marker.args), f"fsck named {named or 'nothing'} and not {marker}"


@pytest.fixture(autouse=True)
def _plain_static(settings: Any) -> None:
    """Static files without a manifest: tests do not run collectstatic."""
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def home(settings: Any, tmp_path: Any) -> Iterator[Any]:
    """An installation's home of this test alone."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    settings.TRIBUTARY_HOME = folder
    settings.TRIBUTARY_WAREHOUSE = (folder / "warehouse").as_uri()
    yield folder


@pytest.fixture(scope="session")
def fork_server() -> Iterator[Any]:
    """One warm fork server for all tests that need one."""
    from tests.factories.fork_server import Server

    folder = Path(tempfile.mkdtemp(prefix="fork"))
    server = Server(folder)
    server.wait_ready()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def readers(home: Path, fork_server: Any) -> Path:
    """A home with a fork server, which reads tables for the web."""
    fork_server.serve(home)
    return home


@pytest.fixture
def make_user(db: None) -> Callable[..., User]:
    """Make a user; the password is the name and `-password-1`."""
    from webapp.accounts.models import User

    def make(username: str, *, is_admin: bool = False) -> User:
        return User.objects.create_user(
            username, password=f"{username}-password-1", is_superuser=is_admin, is_staff=is_admin
        )

    return make


@pytest.fixture
def admin(make_user: Callable[..., User]) -> User:
    """The admin."""
    return make_user("admin", is_admin=True)


@pytest.fixture
def principal_of() -> Callable[[User], Principal]:
    """The principal of a user."""
    from webapp.accounts.queries import principal_for_user

    return principal_for_user


@pytest.fixture
def api_client(db: None) -> Callable[..., APIClient]:
    """A client of the REST API with a token of the user; None for nobody."""
    from rest_framework.test import APIClient

    from webapp.accounts.services import create_token

    def make(user: User | None = None, **token: Any) -> APIClient:
        client = APIClient()
        if user is not None:
            _row, secret = create_token(user=user, name="test", **token)
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        return client

    return make


@pytest.fixture(scope="session")
def object_store() -> Iterator[Any]:
    """An S3-compatible store with one bucket, for all tests that need one; who stops it starts it again."""
    from tests.factories.object_store import running_store

    with running_store() as running:
        yield running
