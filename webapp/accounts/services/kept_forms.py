"""What somebody had typed when their session ended: kept in the browser's next session, for the same user alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.utils.http import url_has_allowed_host_and_scheme

from webapp.accounts.services.sign_in import find_last_user
from webapp.core.sessions import SessionStore

if TYPE_CHECKING:
    from django.http import HttpRequest

KEPT = "kept_form"
MAX_BYTES = 2_000_000
"""Maximum size of a form that is kept, as sent."""
_SECRET = re.compile(r"password|secret|token", re.IGNORECASE)
_CSRF = "csrfmiddlewaretoken"
_WRITTEN = frozenset({"body", "content", "description", "details", "message", "reason", "sql", "title"})
LONG = 80
"""Characters beyond which a field is shown as text."""


class KeptField(NamedTuple):
    """One field of a kept form."""

    name: str
    value: str
    is_text: bool
    """Whether somebody wrote it; other fields are sent unseen."""


class KeptForm(NamedTuple):
    """A form that was not sent."""

    action: str
    fields: list[KeptField]


def keep_form(request: HttpRequest) -> str:
    """Keep a form that was sent without a session; return the page to which its author returns after signing in.

    Forms with secrets or files, and forms of unknown authors, are not kept.
    """
    page = _find_page(request)
    author = _find_author(request)
    if author is None or int(request.META.get("CONTENT_LENGTH") or 0) > MAX_BYTES or request.FILES:
        return page
    fields = [[name, value] for name, values in request.POST.lists() if name != _CSRF for value in values]
    if not any(_SECRET.search(name) for name, _value in fields):
        request.session[KEPT] = {"user": author, "page": page, "action": request.get_full_path(), "fields": fields}
    return page


def find_kept_form(request: HttpRequest) -> KeptForm | None:
    """Return the form that its author had sent from this page; another user's is forgotten."""
    principal = getattr(request, "principal", None)
    if principal is None or (form := request.session.get(KEPT)) is None:
        return None
    if form["user"] != principal.user_id:
        del request.session[KEPT]
        return None
    if unquote(form["page"]) != unquote(request.get_full_path()):
        return None
    fields = [
        KeptField(name, value, name in _WRITTEN or "\n" in value or len(value) > LONG) for name, value in form["fields"]
    ]
    return KeptForm(form["action"], fields)


def forget_kept_form(request: HttpRequest) -> None:
    """Forget a kept form once it was sent."""
    form = request.session.get(KEPT)
    if form is not None and form["action"] == request.get_full_path():
        del request.session[KEPT]


def _find_page(request: HttpRequest) -> str:
    """Return the page of the form, as the browser names it; without that the form's own address."""
    referrer = request.headers.get("Referer", "")
    if not referrer or not url_has_allowed_host_and_scheme(referrer, allowed_hosts={request.get_host()}):
        return request.get_full_path()
    parts = urlsplit(referrer)
    return f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"


def _find_author(request: HttpRequest) -> int | None:
    """Return the user whose session has ended: that of the cookie, or the last one who signed in with this browser."""
    key = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    ended = SessionStore.get_model_class().objects.filter(session_key=key).first() if key else None
    user = ended.get_decoded().get(SESSION_KEY) if ended is not None else None
    return int(user) if user is not None else find_last_user(request)
