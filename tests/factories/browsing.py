"""A reader's session at a running installation."""

from __future__ import annotations

from urllib.parse import urlsplit

import requests


def sign_in(host: str, name: str, password: str) -> requests.Session:
    """Sign in by the page of an installation at this address."""
    session = requests.Session()
    page = f"{host}/login"
    session.get(page, timeout=30).raise_for_status()
    token = session.cookies[f"tributary_csrf_{urlsplit(host).port}"]
    form = {"username": name, "password": password, "csrfmiddlewaretoken": token}
    session.post(page, data=form, headers={"Referer": page}, timeout=30).raise_for_status()
    return session
