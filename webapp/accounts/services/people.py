"""What admins and people themselves change of an account: its password, and whether it is active."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F

from jobs.whole_files import write_whole
from webapp.accounts.models import Token, User
from webapp.accounts.permissions import check_admin
from webapp.accounts.services.audit import record_audit
from webapp.accounts.services.sessions import remove_sessions
from webapp.core import clock
from webapp.core.errors import Conflict, InvalidInput, NotFound

if TYPE_CHECKING:
    from webapp.core.principals import Principal

ADMIN_PASSWORD_FILE = "admin-password"  # noqa: S105 - a file's name
DEMO_PASSWORDS_FILE = "demo-passwords"
CHANGED = "changed on the page Settings, Password "


def check_password(*, user: User, password: str, field: str = "password") -> None:
    """Refuse a password that is too easy to guess.

    Raises:
        InvalidInput: what is wrong with it.

    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise InvalidInput(" ".join(error.messages), errors={field: error.messages}) from None


def set_password(*, user: User, password: str, by: Principal, session_key: str = "") -> None:
    """Give a user another password, which ends all sessions that began with the one before.

    Args:
        user: whose.
        password: the new one.
        by: they, or an admin.
        session_key: of the session that is to go on, which its request still has to `continue_session`.

    Raises:
        InvalidInput: it is too easy to guess.

    """
    if by.user_id != user.pk:
        check_admin(by)
    check_password(user=user, password=password)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        remove_sessions(user_id=user.pk, but=session_key)
        record_audit(by=by, verb="set_password", object=user.username)
    _forget_kept_password(user.username)


def set_active(*, user: User, is_active: bool, by: Principal) -> None:
    """Let a user in again, or shut them out at once: sessions, tokens and streams end and stay ended.

    Raises:
        Conflict: admins cannot shut themselves out.

    """
    check_admin(by)
    if user.is_active == is_active:
        return
    if user.pk == by.user_id:
        raise Conflict("You cannot deactivate yourself: ask another admin.", code="own_account")
    with transaction.atomic():
        User.objects.filter(pk=user.pk).update(
            is_active=is_active, session_generation=F("session_generation") + (0 if is_active else 1)
        )
        if not is_active:
            Token.objects.filter(user=user, revoked_at=None).update(revoked_at=clock.now())
            remove_sessions(user_id=user.pk)
        record_audit(by=by, verb="activate_user" if is_active else "deactivate_user", object=user.username)
    user.refresh_from_db()


def revoke_token_of(*, token_id: int, by: Principal, owner: User | None = None) -> None:
    """End a token at once: one's own, or as an admin anybody's.

    Raises:
        NotFound: it is not there, over, or not theirs to end.

    """
    tokens = Token.objects.filter(pk=token_id, revoked_at=None, job_id="")
    if owner is not None:
        tokens = tokens.filter(user=owner)
    if not by.is_admin:
        tokens = tokens.filter(user_id=by.user_id)
    token = tokens.select_related("user").first()
    with transaction.atomic():
        if token is None or not tokens.update(revoked_at=clock.now()):
            raise NotFound(f"You have no token {token_id}.")
        detail = {"id": token_id, "user": token.user.username}
        record_audit(by=by, verb="revoke_token", object=token.name, detail=detail)


def digest_kept(password: str) -> str:
    """Return what is kept of an environment's password that was changed since, to see whether another is given."""
    return hashlib.sha256(password.encode()).hexdigest()


def keep_password(file: str, *, lines: list[str]) -> None:
    """Write lines into a file of the home that its owner alone can read."""
    path = Path(settings.TRIBUTARY_HOME) / file
    write_whole(path, "".join(f"{line}\n" for line in lines), mode=0o600)


def read_kept(file: str) -> list[str]:
    """Return the lines of such a file; none where it is not there."""
    path = Path(settings.TRIBUTARY_HOME) / file
    return path.read_text().splitlines() if path.exists() else []


def _forget_kept_password(username: str) -> None:
    """Leave no password in a file that is none any more."""
    if username == "admin" and (lines := read_kept(ADMIN_PASSWORD_FILE)) and not lines[0].startswith(CHANGED):
        keep_password(ADMIN_PASSWORD_FILE, lines=[CHANGED + digest_kept(lines[0])])
    lines = read_kept(DEMO_PASSWORDS_FILE)
    others = [line for line in lines if not line.startswith(f"{username}: ")]
    if others != lines:
        keep_password(DEMO_PASSWORDS_FILE, lines=others)
