"""The sign-in provider, by Authlib: where its pages are, and what it says of who comes back from them.

What goes out has an end: in time, in size, at the first address. All of it is asked by the threads of sign-ins alone.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import DjangoIntegration, DjangoOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from django.conf import settings
from joserfc.errors import JoseError
from requests.adapters import HTTPAdapter

from webapp.accounts.rules.claims import InvalidClaims, Profile, is_protected, read_claims
from webapp.core.errors import BadRequest, PermissionDenied, Unavailable

if TYPE_CHECKING:
    from django.http import HttpRequest

logger = logging.getLogger(__name__)
CONNECT_S, READ_S, DEADLINE_S = 3.0, 5.0, 10.0
MOST_BYTES = 1024 * 1024
CHUNK = 64 * 1024
METADATA_SECONDS = 3600
"""So long what the provider says of itself is believed without asking again."""
AWAY_SECONDS = 5
"""So long nobody asks anew whether a provider that was away is back."""
LEEWAY_S = 60
"""Clocks may differ by so much."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by keys of which the provider alone has the secret half; never `none`."""
NAME = "provider"


@dataclass(frozen=True)
class Arrival:
    """Somebody who came back from the provider."""

    profile: Profile
    id_token: str
    """To sign out there; empty where the provider offers that not."""


@dataclass(frozen=True)
class Errand:
    """What somebody went to the provider for."""

    next: str
    """Where they go afterwards."""
    user_id: int | None = None
    """Whose account is linked; None: they sign in."""


@cache
def _read_authorities() -> ssl.SSLContext:
    """Return the machine's authorities, read once in a process: a sign-in has five sessions, and each would read them twice."""
    return ssl.create_default_context()


class _Limits(HTTPAdapter):
    """Answers that are small, whole in time, and lead nowhere else."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options, ssl_context=_read_authorities())

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        """Read the answer up to the limits.

        Raises:
            ConnectionError: it went beyond them.

        """
        deadline = time.monotonic() + DEADLINE_S
        answer = super().send(request, **(options | {"stream": True, "timeout": (CONNECT_S, READ_S)}))
        try:
            content = b""
            for chunk in answer.iter_content(CHUNK):
                content += chunk
                if len(content) > MOST_BYTES or time.monotonic() > deadline:
                    message = f"{request.url} answered too much or too slowly"
                    raise requests.ConnectionError(message)
        finally:
            answer.close()
        answer._content = content
        if answer.is_redirect:
            message = f"{request.url} leads elsewhere"
            raise requests.ConnectionError(message)
        return answer


class _Session(OAuth2Session):  # type: ignore[misc] # Authlib has no types
    """Authlib's session within the limits, to addresses that nobody on the way can play."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for scheme in ("https://", "http://"):
            self.mount(scheme, _Limits())

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Refuse plain addresses, whoever named them."""
        if not is_protected(request.url or ""):
            message = f"{request.url} is neither https nor of loopback"
            raise requests.exceptions.InvalidURL(message)
        answer: requests.Response = super().send(request, **options)
        return answer


class _Provider(DjangoOAuth2App):  # type: ignore[misc] # Authlib has no types
    """The provider of the settings."""

    client_cls = _Session

    def load_server_metadata(self) -> dict[str, Any]:
        """Return what the provider says of itself, where it says it as the issuer that we know.

        Raises:
            ValueError: it is another one.

        """
        is_new = "_loaded_at" not in self.server_metadata
        metadata: dict[str, Any] = super().load_server_metadata()
        if is_new:
            offered = metadata.get("id_token_signing_alg_values_supported") or ALGORITHMS
            metadata["id_token_signing_alg_values_supported"] = [name for name in ALGORITHMS if name in offered]
        if metadata.get("issuer") != settings.TRIBUTARY_OIDC_ISSUER:
            message = f"The provider calls itself {metadata.get('issuer')}, not as TRIBUTARY_OIDC_ISSUER says."
            raise ValueError(message)
        return metadata


class _Providers:
    """The provider in this process with what it said of itself, until that is old; and since when it is away."""

    def __init__(self) -> None:
        self._provider: _Provider | None = None
        self._settings: tuple[str, ...] = ()
        self._old_at = 0.0
        self._away_until = 0.0

    def get(self) -> _Provider:
        """Return it.

        Raises:
            Unavailable: it was away a moment ago.

        """
        names = (
            settings.TRIBUTARY_OIDC_ISSUER,
            settings.TRIBUTARY_OIDC_CLIENT_ID,
            settings.TRIBUTARY_OIDC_CLIENT_SECRET,
        )
        now = time.monotonic()
        if names != self._settings:
            self._provider, self._settings, self._away_until = None, names, 0.0
        if now < self._away_until:
            raise _away()
        if self._provider is None or now > self._old_at:
            self._provider, self._old_at = _make_provider(), now + METADATA_SECONDS
        return self._provider

    def note_away(self) -> None:
        """Ask nothing for a moment, and afterwards everything anew."""
        self._provider, self._away_until = None, time.monotonic() + AWAY_SECONDS


_providers = _Providers()


def find_address(request: HttpRequest, *, callback: str, errand: Errand) -> str:
    """Return the address at the provider to which somebody goes, and remember in their session what for.

    Args:
        request: theirs.
        callback: the address to which they come back.
        errand: what they go for.

    Raises:
        Unavailable: the provider is away.

    """
    with _asking() as provider:
        address = provider.create_authorization_url(callback)
        provider.save_authorize_data(
            request, redirect_uri=callback, next=errand.next, user_id=errand.user_id, **address
        )
    return str(address["url"])


def find_errand(request: HttpRequest) -> Errand:
    """Return what somebody went to the provider for who comes back now.

    Raises:
        BadRequest: nothing: they did not go from this browser, or a while ago, or are back already.

    """
    state = request.GET.get("state", "")
    data = DjangoIntegration(NAME).get_state_data(request.session, state) if state else None
    if data is None:
        message = "This sign-in is over or did not begin in this browser. Begin anew."
        raise BadRequest(message, code="sign_in_lost")
    return Errand(next=data["next"], user_id=data["user_id"])


def read_arrival(request: HttpRequest) -> Arrival:
    """Return who comes back from the provider; each way back leads here once.

    Raises:
        PermissionDenied: they or the provider said no, or what it sent is not for us, not its own, or too old.
        Unavailable: the provider is away, or answers what cannot be understood.

    """
    issuer = settings.TRIBUTARY_OIDC_ISSUER
    try:
        with _asking() as provider:
            _check_answer(request, provider)
            options = {
                "iss": {"essential": True, "value": issuer},
                "aud": {"essential": True, "value": settings.TRIBUTARY_OIDC_CLIENT_ID},
            }
            token = provider.authorize_access_token(request, claims_options=options, leeway=LEEWAY_S)
            profile = _read_profile(provider, token)
            is_leaving_offered = bool(provider.server_metadata.get("end_session_endpoint"))
    except OAuthError as error:
        raise _refused(error.error, error.description) from error
    except JoseError as error:
        message = f"What {settings.TRIBUTARY_OIDC_NAME} sent does not hold: {error}. Begin anew."
        raise PermissionDenied(message, code="token_invalid") from error
    except InvalidClaims as error:
        raise PermissionDenied(str(error), code="token_invalid") from error
    return Arrival(profile, id_token=token["id_token"] if is_leaving_offered else "")


def find_way_out(*, id_token: str, back: str) -> str:
    """Return the address at which somebody signs out of the provider, too.

    Args:
        id_token: of their sign-in.
        back: the address to which they come back.

    Raises:
        Unavailable: the provider is away.

    """
    with _asking() as provider:
        leaving = provider.create_logout_url(
            post_logout_redirect_uri=back, id_token_hint=id_token, client_id=settings.TRIBUTARY_OIDC_CLIENT_ID
        )
    return str(leaving["url"])


def _make_provider() -> _Provider:
    issuer = settings.TRIBUTARY_OIDC_ISSUER
    options = {"scope": " ".join(settings.TRIBUTARY_OIDC_SCOPES), "code_challenge_method": "S256"}
    if not settings.TRIBUTARY_OIDC_CLIENT_SECRET:
        options["token_endpoint_auth_method"] = "none"  # noqa: S105 - how the client proves itself, no secret
    return _Provider(
        DjangoIntegration(NAME),
        name=NAME,
        client_id=settings.TRIBUTARY_OIDC_CLIENT_ID,
        client_secret=settings.TRIBUTARY_OIDC_CLIENT_SECRET or None,
        server_metadata_url=f"{issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs=options,
    )


@contextmanager
def _asking() -> Iterator[_Provider]:
    """Give the provider; whatever it answers that is no answer means that it is away."""
    try:
        yield _providers.get()
    except (requests.RequestException, KeyError, RuntimeError, TypeError, ValueError) as error:
        logger.warning("The sign-in provider %s: %s", settings.TRIBUTARY_OIDC_ISSUER, error)
        _providers.note_away()
        raise _away() from error


def _check_answer(request: HttpRequest, provider: _Provider) -> None:
    """Refuse what comes back without a code, or from another provider.

    Raises:
        OAuthError: says which.

    """
    problem = request.GET.get("error", "")
    if request.GET.get("iss", settings.TRIBUTARY_OIDC_ISSUER) != settings.TRIBUTARY_OIDC_ISSUER:
        problem = "wrong_issuer"
    if problem:
        provider.framework.clear_state_data(request.session, request.GET["state"])
        raise OAuthError(problem, request.GET.get("error_description"))


def _read_profile(provider: _Provider, token: Mapping[str, Any]) -> Profile:
    """Read the ID token and, where the provider has more to say, its user info about the same subject."""
    claims = dict(token.get("userinfo") or {})
    if provider.server_metadata.get("userinfo_endpoint"):
        more = dict(provider.userinfo(token=token))
        if more.get("sub") != claims.get("sub"):
            message = "The provider speaks of two different people."
            raise InvalidClaims(message)
        claims = more | claims
    return read_claims(
        claims,
        groups_claim=settings.TRIBUTARY_OIDC_GROUPS_CLAIM,
        groups=settings.TRIBUTARY_OIDC_GROUPS,
        admin_group=settings.TRIBUTARY_OIDC_ADMIN_GROUP,
    )


def _refused(code: str, description: str) -> PermissionDenied:
    name = settings.TRIBUTARY_OIDC_NAME
    if code == "access_denied":
        return PermissionDenied(f"You did not agree at {name}, or it does not let you in here.", code="access_denied")
    reason = f"{code}: {description}" if description else code
    return PermissionDenied(f"{name} refused the sign-in ({reason[:300]}). Begin anew.", code="provider_refused")


def _away() -> Unavailable:
    message = f"{settings.TRIBUTARY_OIDC_NAME} does not answer now. Try again in a moment."
    return Unavailable(message, code="provider_away", retry_after=AWAY_SECONDS)
