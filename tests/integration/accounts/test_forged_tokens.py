"""What a provider must not be able to say, and what nobody must be able to say for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.test import Client
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from webapp.accounts.models import ProviderIdentity
from webapp.accounts.services import provider

pytestmark = [pytest.mark.integration, pytest.mark.django_db]
ISSUER, CLIENT, SECRET = "https://id.example", "tributary", "a-secret-that-both-know-and-nobody-else"
KEYS = {name: RSAKey.generate_key(2048, {"kid": "1"}) for name in ("own", "foreign")}


class Forger:
    """Answers instead of a provider; each test bends one thing."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.key: Any = KEYS["own"]
        self.algorithm = "RS256"
        self.metadata: dict[str, Any] = {}
        self.userinfo: Any = {"sub": "7", "groups": ["stewards"]}
        self.asked: list[str] = []
        self.nonce = ""

    def token(self) -> str:
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": "7",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "nonce": self.nonce,
            **self.claims,
        }
        held = {name: value for name, value in claims.items() if value is not None}
        if self.algorithm == "none":
            head, body, _ = jwt.encode({"alg": "RS256", "kid": "1"}, held, KEYS["own"]).split(".")
            return f"eyJhbGciOiJub25lIn0.{body}."
        return jwt.encode({"alg": self.algorithm, "kid": "1"}, held, self.key, algorithms=[self.algorithm])

    def answer(self, path: str) -> Any:
        if path.endswith("/openid-configuration"):
            return {
                "issuer": ISSUER,
                "authorization_endpoint": f"{ISSUER}/authorize",
                "token_endpoint": f"{ISSUER}/token",
                "jwks_uri": f"{ISSUER}/keys",
                "userinfo_endpoint": f"{ISSUER}/userinfo",
                "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
                **self.metadata,
            }
        if path == "/keys":
            return {"keys": [KEYS["own"].as_dict(private=False)]}
        if path == "/userinfo":
            return self.userinfo
        return {"access_token": "x", "token_type": "Bearer", "id_token": self.token()}


@pytest.fixture
def forger(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Forger:
    settings.TRIBUTARY_URL = "http://testserver"
    settings.TRIBUTARY_OIDC_ISSUER, settings.TRIBUTARY_OIDC_NAME = ISSUER, "Example ID"
    settings.TRIBUTARY_OIDC_CLIENT_ID, settings.TRIBUTARY_OIDC_CLIENT_SECRET = CLIENT, SECRET
    monkeypatch.setattr(provider, "_providers", provider._Providers())
    forger = Forger()

    def send(_adapter: Any, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        path = urlsplit(request.url or "").path
        forger.asked.append(path)
        answer = requests.Response()
        answer.status_code, answer.request, answer.url = 200, request, str(request.url)
        answer._content = json.dumps(forger.answer(path)).encode()
        return answer

    monkeypatch.setattr(provider._Limits, "send", send)
    return forger


def come_back(forger: Forger) -> Any:
    client = Client()
    leaving = client.get("/login/provider")
    assert leaving.status_code in (302, 503), leaving.content
    if leaving.status_code == 503:
        return leaving
    asked = parse_qs(urlsplit(leaving["Location"]).query)
    forger.nonce = asked["nonce"][0]
    return client.get("/login/provider/return", {"state": asked["state"][0], "code": "x"})


def set_claim(**claims: Any) -> Callable[[Forger], None]:
    return lambda forger: forger.claims.update(claims)


def sign_with(key: Any, algorithm: str) -> Callable[[Forger], None]:
    return lambda forger: vars(forger).update(key=key, algorithm=algorithm)


def test_what_is_not_bent_is_taken(forger: Forger) -> None:
    assert come_back(forger)["Location"] == "/"

    identity = ProviderIdentity.objects.select_related("user").get()
    assert (identity.issuer, identity.subject) == (ISSUER, "7")
    assert [group.name for group in identity.user.groups.all()] == ["stewards"], "user info adds what the token lacks"
    assert forger.asked == ["/.well-known/openid-configuration", "/token", "/keys", "/userinfo"]
    come_back(forger)
    assert forger.asked[4:] == ["/token", "/userinfo"], "what it says of itself is known"


@pytest.mark.parametrize(
    "bend",
    [
        set_claim(aud="another"),
        set_claim(aud="another", azp=CLIENT),
        set_claim(aud=None),
        set_claim(iss="https://evil.example"),
        set_claim(exp=int(time.time()) - 600),
        set_claim(exp=None),
        set_claim(nonce="another"),
        set_claim(nonce=None),
        set_claim(sub=None),
        set_claim(sub=""),
        sign_with(KEYS["foreign"], "RS256"),
        sign_with(OctKey.import_key(SECRET), "HS256"),
        sign_with(None, "none"),
        lambda forger: vars(forger).update(userinfo={"sub": "8"}),
    ],
)
def test_a_token_that_is_not_its_own_for_us_and_new_lets_nobody_in(
    bend: Callable[[Forger], None], forger: Forger
) -> None:
    bend(forger)

    answer = come_back(forger)

    assert answer.status_code == 403
    assert "<code>token_invalid</code>" in answer.content.decode()
    assert not ProviderIdentity.objects.exists()


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://id.example/token"},
        {"jwks_uri": "http://10.0.0.1/keys"},
        {"jwks_uri": None},
        {"userinfo_endpoint": "file:///etc/passwd"},
        {"authorization_endpoint": None},
    ],
)
def test_a_provider_that_names_unprotected_addresses_is_not_asked_there(
    metadata: dict[str, Any], forger: Forger
) -> None:
    forger.metadata = metadata

    answer = come_back(forger)

    assert answer.status_code == 503
    assert "<code>provider_away</code>" in answer.content.decode()
    assert not ProviderIdentity.objects.exists()


@pytest.mark.parametrize("answer", [[], "text", None, 7, {"keys": []}])
def test_answers_of_any_shape_are_a_provider_that_is_away(
    answer: Any, forger: Forger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = forger.answer
    for path in ("/keys", "/userinfo", "/.well-known/openid-configuration", "/token"):
        monkeypatch.setattr(provider, "_providers", provider._Providers())
        monkeypatch.setattr(forger, "answer", lambda asked, path=path: answer if asked == path else said(asked))

        assert come_back(forger).status_code in (403, 503), path
    assert not ProviderIdentity.objects.exists()


def test_answers_are_small_lead_nowhere_and_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/elsewhere":
                self.send_response(302)
                self.send_header("Location", "/small")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}" if self.path == "/small" else b" " * (provider.MOST_BYTES + 1))

        def log_message(self, *_arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        session = provider._Session()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert session.get(f"{url}/small", withhold_token=True).json() == {}
            for path in ("large", "elsewhere"):
                with pytest.raises(requests.ConnectionError):
                    session.get(f"{url}/{path}", withhold_token=True)
            monkeypatch.setattr(provider, "DEADLINE_S", 0.0)
            with pytest.raises(requests.ConnectionError):
                session.get(f"{url}/small", withhold_token=True)
            with pytest.raises(requests.exceptions.InvalidURL):
                session.get("http://id.example/", withhold_token=True)
        finally:
            server.shutdown()
