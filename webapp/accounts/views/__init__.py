"""Sign-in, settings and tokens.

Modules:
    entering: what begins with a session.
    profile: who somebody is here, and where they are signed in.
    single_sign_on: the way to the sign-in provider and back.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.conf import settings as django_settings
from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts import permissions, queries, services
from webapp.accounts.forms import LoginForm, NewPasswordForm, NewUserForm, PasswordForm, SettingsForm, TokenForm
from webapp.accounts.serializers import read_audit_filter
from webapp.accounts.views.entering import ID_TOKEN, LEAVING, enter, find_target
from webapp.core import clock, pages
from webapp.core.errors import AppError, InvalidInput, TooManyRequests, Unauthenticated
from webapp.core.numbers import read_count

if TYPE_CHECKING:
    from django.forms import Form

    from webapp.accounts.models import User
    from webapp.accounts.queries.audit import AuditPage
    from webapp.core.principals import Principal


def login(request: HttpRequest) -> HttpResponse:
    """Sign in with name and password; after too many failures only after a pause."""
    target = find_target(request)
    form = LoginForm(request.POST or None)
    status, retry_after = 200, None
    if request.method == "POST" and form.is_valid():
        try:
            user = services.check_sign_in(request, **form.cleaned_data)
        except TooManyRequests as error:
            form.add_error(None, error.detail)
            status, retry_after = error.status, error.retry_after
        else:
            if user is not None:
                return enter(request, user, redirect(target))
            form.add_error(None, "User name or password is wrong.")
            status = 422
    context = {
        "form": form,
        "next": target,
        "provider": django_settings.TRIBUTARY_OIDC_NAME,
        "is_provider_only": django_settings.TRIBUTARY_OIDC_ONLY,
        "is_way_out_offered": LEAVING in request.session,
    }
    response = pages.render(request, "accounts/login.html", context, status=status)
    if retry_after:
        response["Retry-After"] = str(retry_after)
    return response


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """End the session."""
    if request.principal is not None:  # type: ignore[attr-defined]
        services.record_audit(by=request.principal, verb="sign_out", object=request.principal.username)  # type: ignore[attr-defined]
    services.forget_session(request)
    id_token = request.session.get(ID_TOKEN)
    auth.logout(request)
    if id_token:
        request.session[LEAVING] = id_token
    return redirect("login")


def settings(request: HttpRequest) -> HttpResponse:
    """Let users choose how pages look for them."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    initial = {name: getattr(user, name) for name in SettingsForm.base_fields}
    form = SettingsForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        services.set_preferences(user=user, **form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("settings")
    return pages.render(request, "accounts/settings.html", {"form": form})


@require_GET
def audit(request: HttpRequest) -> HttpResponse:
    """Look through the audit log; admins only."""
    if request.principal is None:  # type: ignore[attr-defined]
        raise Unauthenticated("Sign in to see the audit log.")
    permissions.check_admin(request.principal)  # type: ignore[attr-defined]
    parameters = {name: str(value) for name, value in request.GET.items() if value}
    try:
        criteria = read_audit_filter(parameters)
    except InvalidInput as error:
        page = replace(queries.read_audit_page(queries.AuditFilter()), entries=[], older=None, problem=error.detail)
        return _show_audit(request, page, status=error.status)
    page = queries.read_audit_page(criteria, before=read_count(request.GET.get("before", "")))
    return _show_audit(request, page)


def _show_audit(request: HttpRequest, page: AuditPage, *, status: int = 200) -> HttpResponse:
    context = {name: getattr(page, name) for name in page.__dataclass_fields__}
    context |= {"page": page, "export_query": urlencode(page.export_parameters)}
    return pages.render(request, "accounts/audit.html", context, status=status)


def tokens(request: HttpRequest) -> HttpResponse:
    """List, make and revoke the user's tokens. A new secret is on the page once."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    form = TokenForm(request.POST or None)
    secret = ""
    if request.method == "POST" and form.is_valid():
        days = form.cleaned_data["days"]
        scope = form.cleaned_data["scope"]
        _token, secret = services.create_token(
            user=user,
            name=form.cleaned_data["name"],
            scopes=[scope] if scope else [],
            expires_at=clock.shared_now() + timedelta(days=days) if days else None,
        )
        form = TokenForm()
    context = {"form": form, "tokens": queries.list_tokens(user_id=user.pk), "secret": secret}
    response = pages.render(request, "accounts/tokens.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End one token; admins end anybody's, on that user's page."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    owner = queries.get_user(request.POST["owner"]) if request.POST.get("owner") else user
    services.revoke_token_of(token_id=token_id, by=queries.principal_for_user(user), owner=owner)
    messages.success(request, "The token is revoked.")
    return redirect("tokens") if owner == user else redirect("user", owner.username)


def password(request: HttpRequest) -> HttpResponse:
    """Change one's own password; other sessions end, this one goes on."""
    user = queries.get_signed_in_user(request.principal)  # type: ignore[attr-defined]
    form = PasswordForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            _change_password(request, user, form.cleaned_data)
        except AppError as error:
            form.add_error(_field_of(error, form), error.detail)
            status = error.status
        else:
            messages.success(request, "Your password is changed. Other sessions have ended.")
            return redirect("password")
    elif form.errors:
        status = 422
    context = {
        "form": form,
        "has_password": permissions.may_use_password(user),
        "provider": django_settings.TRIBUTARY_OIDC_NAME,
    }
    return pages.render(request, "accounts/password.html", context, status=status)


def _change_password(request: HttpRequest, user: User, passwords: dict[str, str]) -> None:
    account = services.check_sign_in(request, username=user.username, password=passwords["current"])
    if account is None:
        message = "The current password is wrong."
        raise InvalidInput(message, errors={"current": [message]})
    by, session_key = queries.principal_for_user(account), request.session.session_key or ""
    services.set_password(user=account, password=passwords["password"], by=by, session_key=session_key)
    services.continue_session(request, user=account)


def _field_of(error: AppError, form: Form) -> str | None:
    return next((name for name in error.errors or () if name in form.fields), None)


def users(request: HttpRequest) -> HttpResponse:
    """List and make users; for admins."""
    by = _check_admin(request)
    form = NewUserForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            account = services.create_user(**form.cleaned_data, by=by)
        except AppError as error:
            form.add_error(_field_of(error, form), error.detail)
            status = error.status
        else:
            messages.success(request, f"{account.username} can sign in.")
            return redirect("users")
    elif form.errors:
        status = 422
    context = {"form": form, "users": queries.list_users(with_inactive=True)}
    return pages.render(request, "accounts/users.html", context, status=status)


def user(request: HttpRequest, username: str) -> HttpResponse:
    """Show one user, for admins: their tokens, another password, whether they may sign in."""
    by = _check_admin(request)
    person = queries.get_user(username)
    form = NewPasswordForm(request.POST if request.POST.get("act") == "password" else None)
    status = 200
    if request.method == "POST":
        try:
            done = _change_user(request, person, form, by)
        except AppError as error:
            form.add_error(_field_of(error, form), error.detail) if form.is_bound else messages.error(
                request, error.detail
            )
            status = error.status
        else:
            if done:
                messages.success(request, done)
                return redirect("user", person.username)
            status = 422
    context = {
        "form": form,
        "person": person,
        "tokens": queries.list_tokens(user_id=person.pk),
        "is_self": by.user_id == person.pk,
    }
    return pages.render(request, "accounts/user.html", context, status=status)


def _change_user(request: HttpRequest, person: User, form: NewPasswordForm, by: Principal) -> str:
    """Do what a form of the page asks for; return what was done, empty where the form is not filled in."""
    act = request.POST.get("act")
    if act in ("activate", "deactivate"):
        services.set_active(user=person, is_active=act == "activate", by=by)
        return f"{person.username} may sign in again." if act == "activate" else f"{person.username} is shut out."
    if form.is_valid():
        services.set_password(user=person, password=form.cleaned_data["password"], by=by)
        return f"{person.username} has a new password; their sessions have ended."
    return ""


def _check_admin(request: HttpRequest) -> Principal:
    by = queries.principal_for_user(queries.get_signed_in_user(request.principal))  # type: ignore[attr-defined]
    permissions.check_admin(by)
    return by
