"""A real OpenID Connect provider on loopback, the npm package `oidc-provider`, and a browser's way through its pages."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
from django.conf import settings

from webapp.runtime.probes import find_free_port

CLIENT_ID, CLIENT_SECRET = "tributary", "a-secret-of-tributary"
INES = {
    "preferred_username": "ines",
    "name": "Inés Ruiz",
    "email": "ines@example.org",
    "email_verified": True,
    "groups": ["stewards"],
}


@dataclass
class OidcProvider:
    """The process, and whom it knows."""

    issuer: str
    accounts: Path
    process: Any = field(repr=False)

    def set_accounts(self, **accounts: dict[str, Any]) -> None:
        self.accounts.write_text(json.dumps(accounts))

    def settings_for(self, url: str) -> dict[str, Any]:
        return {
            "TRIBUTARY_URL": url,
            "TRIBUTARY_OIDC_ISSUER": self.issuer,
            "TRIBUTARY_OIDC_CLIENT_ID": CLIENT_ID,
            "TRIBUTARY_OIDC_CLIENT_SECRET": CLIENT_SECRET,
            "TRIBUTARY_OIDC_NAME": "Example ID",
        }

    def walk(self, address: str, *, login: str | None) -> str:
        """Follow an address at the provider as a new browser does, with consent, or saying no; return the way back."""
        browser = requests.Session()
        answer = browser.get(address, allow_redirects=False, timeout=10)
        for _ in range(12):
            if answer.is_redirect:
                there = urljoin(answer.url, answer.headers["Location"])
                if urlsplit(there).netloc != urlsplit(self.issuer).netloc:
                    return there
                answer = browser.get(there, allow_redirects=False, timeout=10)
            elif login is None:
                abort = re.search(r'href="([^"]+/abort)"', answer.text)
                assert abort, answer.text
                answer = browser.get(urljoin(answer.url, unescape(abort[1])), allow_redirects=False, timeout=10)
            else:
                form = re.search(r'<form[^>]+action="([^"]+)"', answer.text)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert form and prompt, answer.text
                fields = {"prompt": prompt[1], "login": login, "password": "any"}
                answer = browser.post(
                    urljoin(answer.url, unescape(form[1])), data=fields, allow_redirects=False, timeout=10
                )
        raise AssertionError(answer.text)


@contextmanager
def running_oidc_provider(folder: Path, *, url: str) -> Iterator[OidcProvider]:
    """Run it for an installation at an address."""
    port = find_free_port()
    accounts = folder / "accounts.json"
    script = Path(settings.BASE_DIR) / "tests" / "factories" / "oidc_provider.mjs"
    command = [
        shutil.which("node") or "node",
        str(script),
        str(port),
        str(accounts),
        f"{url}/login/provider/return",
        f"{url}/login",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout.readline() == "listening\n", (folder / "log").read_text()
        provider = OidcProvider(f"http://127.0.0.1:{port}", accounts, process)
        provider.set_accounts(ines=INES)
        yield provider
    finally:
        process.kill()
        process.communicate()
