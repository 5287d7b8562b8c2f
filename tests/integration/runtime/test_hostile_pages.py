"""One reader asks for pages that take long to decorate: everybody else's pages answer meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import requests

from tests.integration.repositories.live import LiveServer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.integration
AT_ONCE = 24
ANSWERS_S = 10
SETUP = """
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from tests.factories import repositories as make
from webapp.accounts.models import User
owner = make.a_person("ines")
repository = make.a_repository("shop", by=owner)
for number in range(24):
    make.a_commit(repository, {f"f{number}.py": " \\\\n" * 50_000 + str(number)}, by=owner)
person = make.a_member(repository, "reader", "mallory")
user = User.objects.get(pk=person.user_id)
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(user.pk)
session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
session[HASH_SESSION_KEY] = user.get_session_auth_hash()
session.create()
result = [settings.SESSION_COOKIE_NAME, session.session_key, make.a_token(owner)]
"""


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    server = LiveServer.start(tmp_path_factory.mktemp("home"))
    yield server
    server.close()


def test_pages_that_take_long_stop_nobody_else(server: LiveServer) -> None:
    cookie, session, token = server.run(SETUP.replace("\\\\n", "\\n"))
    base = f"http://127.0.0.1:{server.port}"
    ends = threading.Event()

    def attack(number: int) -> list[int]:
        statuses = []
        while not ends.is_set():
            page = requests.get(f"{base}/r/shop/blob/master/f{number}.py", cookies={cookie: session}, timeout=60)
            statuses.append(page.status_code)
        return statuses

    with ThreadPoolExecutor(AT_ONCE) as pool:
        attacks = [pool.submit(attack, number) for number in range(AT_ONCE)]
        time.sleep(1)
        try:
            for _ in range(4):
                for path, headers in (("/login", {}), ("/api/v1/profile", {"Authorization": f"Bearer {token}"})):
                    assert requests.get(f"{base}{path}", headers=headers, timeout=ANSWERS_S).status_code == 200
        finally:
            ends.set()
        statuses = {status for one in attacks for status in one.result()}
    assert 200 in statuses
    assert statuses <= {200, 503}
