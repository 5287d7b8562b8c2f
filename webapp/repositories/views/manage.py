"""The list of repositories, a new one, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.errors import AppError, InvalidInput
from webapp.core.numbers import read_count
from webapp.core.undo import offer_undo
from webapp.repositories import permissions, queries, services
from webapp.repositories.forms import (
    DescriptionForm,
    MemberForm,
    NewRepositoryForm,
    ProtectionForm,
    WebhookForm,
    write_protection,
)
from webapp.repositories.pages.repositories import repositories_page, settings_page
from webapp.repositories.views.common import add_refusal, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    from webapp.core.principals import Principal
    from webapp.repositories.models import Repository


@require_GET
def repositories(request: HttpRequest) -> HttpResponse:
    """List the repositories that the reader can see."""
    page = repositories_page(signed_in(request), q=request.GET.get("q", "").strip(), parameters=request.GET)
    return pages.render(request, "repositories/repositories.html", page)


def new(request: HttpRequest) -> HttpResponse:
    """Make a repository."""
    principal = signed_in(request)
    form = NewRepositoryForm(request.POST or None)
    status = 200
    if request.method == "POST":
        status = InvalidInput.status
        if form.is_valid():
            try:
                repository = services.create_repository(by=principal, **form.cleaned_data)
            except AppError as error:
                add_refusal(form, error)
                status = error.status
            else:
                return redirect("repository", repo=repository.name)
    context = {"form": form, "nav": "repositories"}
    return pages.render(request, "repositories/new.html", context, status=status)


FORMS: dict[str, type[Form]] = {
    "description": DescriptionForm,
    "member": MemberForm,
    "protection": ProtectionForm,
    "webhook": WebhookForm,
}


def settings(request: HttpRequest, repo: str) -> HttpResponse:
    """Show and change description, members, protections and webhooks."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    forms: dict[str, Any] = {
        "description": DescriptionForm(initial={"description": repository.description}),
        "member": MemberForm(prefix="member"),
        "protection": ProtectionForm(prefix="protection", initial={"branch": repository.default_branch}),
        "webhook": WebhookForm(prefix="webhook"),
    }
    status = 200
    which = request.POST.get("form", "")
    if request.method == "POST" and which in FORMS:
        prefix = None if which == "description" else which
        form: Form = FORMS[which](request.POST, prefix=prefix)
        forms[which] = form
        status = InvalidInput.status
        if form.is_valid():
            try:
                SAVES[which](repository, form.cleaned_data, principal)
            except AppError as error:
                _add(form, error)
                status = error.status
            else:
                messages.success(request, "Saved.")
                return redirect("repository-settings", repo=repository.name)
    page = settings_page(principal, repository)
    return show(request, "repositories/settings.html", page, status=status, forms=forms)


def _add(form: Form, error: AppError) -> None:
    errors: Any = error.errors
    if isinstance(errors, dict) and "name" in errors and "branch" in form.fields:
        form.add_error("branch", error.detail)
    else:
        add_refusal(form, error)


def _save_description(repository: Repository, fields: dict[str, Any], by: Principal) -> None:
    services.update_repository(repository=repository, description=fields["description"], by=by)


def _save_member(repository: Repository, fields: dict[str, Any], by: Principal) -> None:
    services.set_member(repository=repository, username=fields["user"], role=fields["role"], by=by)


def _save_protection(repository: Repository, fields: dict[str, Any], by: Principal) -> None:
    services.set_protection(repository=repository, by=by, **fields)


def _save_webhook(repository: Repository, fields: dict[str, Any], by: Principal) -> None:
    services.add_webhook(repository=repository, by=by, **fields)


SAVES: dict[str, Callable[[Repository, dict[str, Any], Principal], None]] = {
    "description": _save_description,
    "member": _save_member,
    "protection": _save_protection,
    "webhook": _save_webhook,
}


@require_POST
def remove_member(request: HttpRequest, repo: str) -> HttpResponse:
    """Take a member's role away."""

    def act(repository: Repository, by: Principal) -> str:
        username = request.POST.get("user", "")
        member = queries.list_members(by, repository).filter(user__username=username).first()
        services.remove_member(repository=repository, username=username, by=by)
        if member is not None:
            fields = [("form", "member"), ("member-user", username), ("member-role", member.role)]
            _offer_undo(request, repository, f"{username} is no longer a member.", fields)
            return ""
        return f"{username} is no longer a member."

    return _act(request, repo, act)


@require_POST
def remove_protection(request: HttpRequest, repo: str) -> HttpResponse:
    """Let writers move a branch again."""

    def act(repository: Repository, by: Principal) -> str:
        branch = request.POST.get("branch", "")
        protection = permissions.find_protection(repository, branch)
        before = write_protection(protection) if protection is not None else {}
        services.remove_protection(repository=repository, branch=branch, by=by)
        fields = [("form", "protection"), *((f"protection-{name}", value) for name, value in before.items())]
        _offer_undo(request, repository, f"Branch {branch} is no longer protected.", fields)
        return ""

    return _act(request, repo, act)


def _offer_undo(request: HttpRequest, repository: Repository, text: str, fields: Iterable[tuple[str, object]]) -> None:
    offer_undo(request, text, url=reverse("repository-settings", args=[repository.name]), fields=fields)


@require_POST
def remove_webhook(request: HttpRequest, repo: str) -> HttpResponse:
    """Remove a webhook."""

    def act(repository: Repository, by: Principal) -> str:
        webhook = queries.get_webhook(by, repository, read_count(request.POST.get("webhook", "")) or 0)
        services.remove_webhook(webhook=webhook, by=by)
        return f"{webhook.url} receives no more events."

    return _act(request, repo, act)


@require_POST
def delete(request: HttpRequest, repo: str) -> HttpResponse:
    """Delete the repository, whose name must be typed."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    if request.POST.get("name") != repository.name:
        messages.error(request, "Nothing was deleted: the name was not typed as it is.")
        return redirect("repository-settings", repo=repository.name)
    services.delete_repository(repository=repository, by=principal)
    messages.success(request, f"The repository {repo} is deleted.")
    return redirect("repositories")


def _act(request: HttpRequest, repo: str, act: Callable[[Repository, Principal], str]) -> HttpResponse:
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    try:
        said = act(repository, principal)
    except AppError as error:
        messages.error(request, error.detail)
    else:
        if said:
            messages.success(request, said)
    return redirect("repository-settings", repo=repository.name)
