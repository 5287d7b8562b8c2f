"""What the server can do, and tokens for engines."""

from urllib.parse import parse_qs, unquote

from webapp.accounts.queries import authenticate_token
from webapp.accounts.services import refuse_token
from webapp.catalog.api.http import Call, CatalogRequest, CatalogResponse, answer
from webapp.catalog.rules.endpoints import listed_endpoints
from webapp.catalog.services.idempotency import LIFETIME
from webapp.core.basic_auth import read_basic
from webapp.core.errors import Unauthenticated
from webapp.core.principals import Principal

CLIENT_CREDENTIALS = "client_credentials"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - the name of a grant
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a type


def get_config(call: Call) -> CatalogResponse:
    """Answer with defaults, overrides and the operations that this caller's branch allows."""
    body = {
        "defaults": {},
        "overrides": {},
        "endpoints": listed_endpoints(on_branch=call.branch is not None),
        "idempotency-key-lifetime": LIFETIME,
    }
    return answer(body, lasts=True)


def get_token(request: CatalogRequest) -> CatalogResponse:
    """Issue a token by OAuth2 client credentials: the client is the user's name, its secret one of the tokens."""
    try:
        form = {key: values[-1] for key, values in parse_qs(request.body.decode()).items()}
    except UnicodeDecodeError:
        return _oauth_error("invalid_request", "The body is not a form")
    grant = form.get("grant_type")
    if grant == CLIENT_CREDENTIALS:
        return _client_credentials(request, form)
    if grant == TOKEN_EXCHANGE:
        return _issue(request, form.get("subject_token", ""), user=None)
    return _oauth_error("unsupported_grant_type", f"grant_type must be {CLIENT_CREDENTIALS} or {TOKEN_EXCHANGE}")


def _client_credentials(request: CatalogRequest, form: dict[str, str]) -> CatalogResponse:
    basic = read_basic(request.header("authorization") or "")
    user, secret = map(unquote, basic) if basic else (form.get("client_id", ""), form.get("client_secret", ""))
    return _issue(request, secret, user=user or None)


def _issue(request: CatalogRequest, secret: str, *, user: str | None) -> CatalogResponse:
    """Answer with the token itself as access token: every request checks it, so that a revocation holds at once."""
    try:
        principal = _find_owner(request, secret, user=user)
    except Unauthenticated as error:
        return _oauth_error("invalid_client", error.detail)
    if user is not None and principal.username != user:
        return _oauth_error("invalid_client", "The token is not one of this user")
    return answer({"access_token": secret, "token_type": "bearer", "issued_token_type": ACCESS_TOKEN})


def _find_owner(request: CatalogRequest, secret: str, *, user: str | None) -> Principal:
    try:
        return authenticate_token(secret)
    except Unauthenticated as error:
        refuse_token(error, username=user or "", address=request.address)


def _oauth_error(code: str, description: str) -> CatalogResponse:
    status = 401 if code == "invalid_client" else 400
    return answer({"error": code, "error_description": description}, status=status)
