"""Sign-in, settings and tokens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts import permissions, queries, services
from webapp.accounts.forms import LoginForm, SettingsForm, TokenForm
from webapp.accounts.serializers import AuditFilterSerializer
from webapp.core import clock, pages
from webapp.core.errors import InvalidInput, TooManyRequests, Unauthenticated
from webapp.core.inputs import read_input
from webapp.core.numbers import read_count


def login(request: HttpRequest) -> HttpResponse:
    """Sign in with name and password; after too many failures only after a pause."""
    target = request.POST.get("next") or request.GET.get("next") or "/"
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}):
        target = "/"
    form = LoginForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        username = form.cleaned_data["username"]
        try:
            services.check_may_try_login(username=username, address=request.META.get("REMOTE_ADDR", ""))
        except TooManyRequests as error:
            form.add_error(None, error.detail)
            status = error.status
        else:
            user = auth.authenticate(request, username=username, password=form.cleaned_data["password"])
            services.record_login(username=username, address=request.META.get("REMOTE_ADDR", ""), user=user)
            if user is not None:
                auth.login(request, user)
                return redirect(target)
            form.add_error(None, "User name or password is wrong.")
            status = 422
    return pages.render(request, "accounts/login.html", {"form": form, "next": target}, status=status)


@require_POST
def logout(request: HttpRequest) -> HttpResponse:
    """End the session."""
    if request.principal is not None:  # type: ignore[attr-defined]
        services.record_audit(by=request.principal, verb="sign_out", object=request.principal.username)  # type: ignore[attr-defined]
    auth.logout(request)
    return redirect("login")


def settings(request: HttpRequest) -> HttpResponse:
    """How pages look for the user."""
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
    given = {name: value for name, value in request.GET.items() if value}
    try:
        wanted = queries.AuditFilter(**read_input(AuditFilterSerializer, given))
    except InvalidInput as error:
        page = replace(queries.read_audit_page(queries.AuditFilter()), entries=[], older=None, problem=error.detail)
        return pages.render(request, "accounts/audit.html", page, status=error.status)
    page = queries.read_audit_page(wanted, before=read_count(request.GET.get("before", "")))
    return pages.render(request, "accounts/audit.html", page)


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
            expires_at=clock.now() + timedelta(days=days) if days else None,
        )
        form = TokenForm()
    context = {"form": form, "tokens": queries.list_tokens(user_id=user.pk), "secret": secret}
    response = pages.render(request, "accounts/tokens.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End one token."""
    services.revoke_token(token_id=token_id, user=queries.get_signed_in_user(request.principal))  # type: ignore[attr-defined]
    messages.success(request, "The token is revoked.")
    return redirect("tokens")
