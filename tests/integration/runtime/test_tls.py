"""An installation behind a proxy that ends TLS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.factories.tls_proxy import TlsProxy, running_tls_proxy
from tests.integration.repositories.live import ROOT, LiveServer
from webapp.runtime.probes import find_free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
PASSWORD = "ines-password-of-tests-1"
SETUP = f"""
from webapp.accounts import services
user = services.create_user(username="ines", password={PASSWORD!r}, by=None)
result = services.create_token(user=user, name="tests")[1]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, TlsProxy]]:
    """An installation that knows its address, and the proxy there."""
    port = find_free_port()
    server = LiveServer.start(tmp_path_factory.mktemp("home"), TRIBUTARY_URL=f"https://localhost:{port}")
    with running_tls_proxy(tmp_path_factory.mktemp("tls"), port=port, to=server.port) as proxy:
        yield server, proxy
    server.close()


def test_people_sign_in_and_programs_are_answered(server: tuple[LiveServer, TlsProxy]) -> None:
    live, proxy = server
    token = live.run(SETUP)
    with requests.Session() as browser:
        browser.trust_env = False
        browser.verify = str(proxy.certificate)
        form = browser.get(f"{proxy.url}/login", timeout=20)
        assert form.headers["Strict-Transport-Security"].startswith("max-age=")
        secret = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
        assert secret is not None
        signed_in = browser.post(
            f"{proxy.url}/login",
            data={"username": "ines", "password": PASSWORD, "csrfmiddlewaretoken": secret[1]},
            headers={"Origin": proxy.url, "Referer": f"{proxy.url}/login"},
            timeout=20,
            allow_redirects=False,
        )
        assert signed_in.status_code == 302, signed_in.text
        assert all(cookie.secure for cookie in browser.cookies)
        assert browser.get(f"{proxy.url}/repositories", timeout=20, allow_redirects=False).status_code == 200
        known = {"Authorization": f"Bearer {token}"}
        listed = browser.get(f"{proxy.url}/api/v1/repositories", headers=known, timeout=20)
        assert listed.status_code == 200
        assert browser.get(f"{proxy.url}/iceberg/v1/config", headers=known, timeout=20).status_code == 200


def test_plain_requests_are_sent_to_the_proxy_and_machines_are_not(server: tuple[LiveServer, TlsProxy]) -> None:
    live, _proxy = server
    plain = f"http://127.0.0.1:{live.port}"
    moved = requests.get(f"{plain}/login", timeout=20, allow_redirects=False)
    assert (moved.status_code, moved.headers["Location"][:8]) == (301, "https://")
    assert requests.get(f"{plain}/healthz", timeout=20, allow_redirects=False).status_code == 200
    assert requests.get(f"{plain}/readyz", timeout=20, allow_redirects=False).status_code == 503


def test_the_deployment_check_finds_nothing(tmp_path: Path) -> None:
    said = {"TRIBUTARY_HOME": str(tmp_path), "TRIBUTARY_URL": "https://tributary.example"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")} | said
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
