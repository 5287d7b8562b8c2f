"""Signing in: wrong passwords and tokens are counted and slowed down, in the database that all web processes share."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NoReturn

from django.conf import settings
from django.contrib.auth import authenticate
from django.core import signing
from django.db.models import Count, Max, Q

from webapp.accounts.models import LoginFailure, User
from webapp.accounts.permissions import may_use_password
from webapp.accounts.rules import throttle
from webapp.accounts.services.audit import record_audit
from webapp.core import clock
from webapp.core.errors import AppError, TooManyRequests

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.http import HttpRequest

PASSWORD = "password"  # noqa: S105 - what was tried, not a secret
TOKEN = "token"  # noqa: S105 - what was tried, not a secret
PROVIDER = "provider"
DEVICE_SECONDS = 400 * 24 * 3600
"""As long as browsers keep a cookie."""
DEVICE_SALT = "accounts.device"
MOST_PEOPLE = 20
"""Of one device."""


def check_sign_in(request: HttpRequest, *, username: str, password: str) -> User | None:
    """Return the active user whose password this is; None where it is wrong, which the audit log says.

    Whoever then lets them in, or does what they asked for, writes that down: it is one act.

    Raises:
        TooManyRequests: wait first; says how long.

    """
    device = _find_device(request, username=username)
    attempt = begin_attempt(username=username, address=request.META.get("REMOTE_ADDR", ""), device=device)
    user = authenticate(request, username=username, password=password)
    if isinstance(user, User) and not may_use_password(user):
        user = None
    finish_attempt(attempt, username=username, user=user)
    return user if isinstance(user, User) else None


def begin_provider_attempt(request: HttpRequest) -> None:
    """Count that somebody goes to the sign-in provider: each way begins a session and asks another machine.

    Raises:
        TooManyRequests: wait first; says how long.

    """
    device = str(_read_device(request)["id"])
    begin_attempt(username="", address=request.META.get("REMOTE_ADDR", ""), device=device, kind=PROVIDER)


def finish_provider_attempt(request: HttpRequest, *, user: User) -> None:
    """Forget the ways to the provider that began at the address, or on the device, of somebody who is in now."""
    attempt = LoginFailure(
        kind=PROVIDER,
        address=throttle.read_network(request.META.get("REMOTE_ADDR", "")),
        device=str(_read_device(request)["id"]),
    )
    finish_attempt(attempt, username=user.username, user=user)


def remember_device(request: HttpRequest, *, user: User) -> str:
    """Return the signed value of a cookie by which the device is known as one of the user's."""
    device = _read_device(request)
    people = [user.pk, *(person for person in device["people"] if person != user.pk)][:MOST_PEOPLE]
    return signing.dumps({"id": device["id"] or secrets.token_hex(16), "people": people}, salt=DEVICE_SALT)


def find_last_user(request: HttpRequest) -> int | None:
    """Return the id of the user who signed in last with this browser, or None."""
    people = _read_device(request)["people"]
    return int(people[0]) if people else None


def _find_device(request: HttpRequest, *, username: str) -> str:
    device = _read_device(request)
    is_own = bool(device["id"]) and User.objects.filter(username=username, pk__in=device["people"]).exists()
    return str(device["id"]) if is_own else ""


def _read_device(request: HttpRequest) -> dict[str, Any]:
    try:
        value = request.COOKIES.get(settings.DEVICE_COOKIE_NAME, "")
        device: dict[str, Any] = signing.loads(value, salt=DEVICE_SALT, max_age=DEVICE_SECONDS)
    except signing.BadSignature:
        return {"id": "", "people": []}
    return device


def begin_attempt(*, username: str, address: str, device: str = "", kind: str = PASSWORD) -> LoginFailure:
    """Count an attempt as failed before it is looked at, so that many at once cannot outrun the count.

    Args:
        username: the name that was given.
        address: where the attempt comes from.
        device: id of a device on which this very person has signed in before; else empty.
        kind: what is tried.

    Raises:
        TooManyRequests: wait first; says how long. Nothing was looked at, and nothing is counted.

    """
    username, network = username.casefold()[:150], throttle.read_network(address)
    now = clock.shared_now()
    recent = LoginFailure.objects.filter(kind=kind, at__gt=now - throttle.WINDOW)
    limits = {
        "pair": (Q(username=username, address=network), throttle.BY_NAME_AND_ADDRESS),
        "address": (Q(address=network), throttle.BY_ADDRESS),
        "name": (Q(username=username), throttle.BY_NAME),
    }
    if device:
        limits = {"device": (Q(device=device), throttle.BY_DEVICE)}
    elif kind == PROVIDER:
        limits = {"address": limits["address"]}
    counts = recent.aggregate(
        **{f"{name}_count": Count("pk", filter=condition) for name, (condition, _) in limits.items()},
        **{f"{name}_last": Max("at", filter=condition) for name, (condition, _) in limits.items()},
    )
    if "pair" in limits and counts["pair_count"] < throttle.BY_NAME_AND_ADDRESS.free:
        del limits["name"]  # from many networks at once somebody else would keep this one waiting for ever
    waits = []
    for name, (_, limit) in limits.items():
        if counts[f"{name}_last"]:
            pause = limit.wait_after(counts[f"{name}_count"])
            # A failure in the future is one of a clock that was ahead.
            waits.append(min(pause, counts[f"{name}_last"] + pause - now))
    seconds = max((wait.total_seconds() for wait in waits), default=0)
    if seconds > 0:
        whole = int(seconds) + 1
        raise TooManyRequests(
            f"Too many failed sign-ins. Try again in {whole} second{'s' if whole > 1 else ''}.",
            code="login_paused",
            retry_after=whole,
        )
    LoginFailure.objects.filter(at__lt=now - throttle.WINDOW).delete()
    return LoginFailure.objects.create(kind=kind, username=username, address=network, device=device, at=now)


def finish_attempt(attempt: LoginFailure, *, username: str, user: AbstractBaseUser | None) -> None:
    """Keep a failure; forget those of a name that signed in, at its address and on its device."""
    if not isinstance(user, User):
        record_audit(by=None, verb="sign_in", object=username[:150], outcome="refused")
        return
    own = Q(username=attempt.username, address=attempt.address)
    if attempt.device:
        own |= Q(device=attempt.device)
    LoginFailure.objects.filter(own, kind=attempt.kind).delete()


def refuse_token(error: AppError, *, username: str, address: str) -> NoReturn:
    """Count a wrong token and refuse it; the right one is never asked to wait, since it is found at once.

    Raises:
        TooManyRequests: there were too many.
        AppError: the error, where there were not.

    """
    if error.code == "token_unknown":
        begin_attempt(username=username, address=address, kind=TOKEN)
    raise error
