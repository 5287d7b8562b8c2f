"""Commits, comparisons and branches."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from django.contrib import messages
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts.permissions import signed_in
from webapp.core import pages
from webapp.core.choices import choose
from webapp.core.errors import AppError, InvalidInput, NotFound
from webapp.core.undo import offer_undo
from webapp.repositories import queries, services
from webapp.repositories.forms import BranchForm, DeleteBranchForm
from webapp.repositories.pages.branches import branches_page
from webapp.repositories.pages.frame import options_part, ref_url, split_ref
from webapp.repositories.pages.history import DiffChoice, commit_page, commits_page, compare_page
from webapp.repositories.views.common import add_refusal, show, shows_code

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

PUBLISHING = {"status": "repositories/_publishing.html", "state": "repositories/_publication.html"}
"""Fragments that ask how publishing a commit on a branch goes → their template."""
PICKER_VIEWS = frozenset({"tree", "commits", "find"})
"""Where pickers of branches lead."""


@require_GET
def commits(request: HttpRequest, repo: str, rest: str = "") -> HttpResponse:
    """Show the history of a ref, or of one path."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    ref, _ = split_ref(repository, rest or repository.default_branch)
    page = commits_page(
        principal,
        repository,
        ref,
        filters=queries.CommitFilter.read_page(request.GET),
        parameters=request.GET,
    )
    return show(request, "repositories/commits.html", page)


CONTEXTS = {"3": 3, "25": 25, "all": 100_000}


def _diff_choice(request: HttpRequest) -> DiffChoice:
    return DiffChoice(
        split=request.GET.get("view") == "split",
        ignore_whitespace=request.GET.get("w") == "1",
        context=CONTEXTS.get(request.GET.get("around", ""), 3),
        unfolded=request.GET.get("file", ""),
        page=_page_number(request),
    )


def _page_number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return max(1, int(text)) if text.isdecimal() and text.isascii() and len(text) < 6 else 1


@require_GET
@shows_code
def commit(request: HttpRequest, repo: str, sha: str) -> HttpResponse:
    """Show a commit: what it changed and what came of publishing it."""
    if request.GET.get("fragment") in PUBLISHING:
        return _publishing(request, repo, sha, template=PUBLISHING[request.GET["fragment"]])
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    page = commit_page(principal, repository, sha, _diff_choice(request))
    fragment = "publications" if request.GET.get("fragment") == "publications" else None
    response = show(request, "repositories/commit.html", page, fragment=fragment)
    if fragment and not page.pending:
        # Tells htmx to stop asking.
        response.status_code = 286
    return response


def _publishing(request: HttpRequest, repo: str, sha: str, *, template: str) -> HttpResponse:
    """Answer how publishing a commit on a branch goes."""
    repository = queries.get_repository(signed_in(request), repo)
    publication = queries.get_publication(repository, request.GET.get("branch", ""), sha)
    url = reverse("repository-commit", args=[repository.name, sha])
    context = {"publication": publication, "repo_name": repository.name, "is_update": True, "url": url}
    return pages.render(request, template, context)


@require_GET
@shows_code
def compare(request: HttpRequest, repo: str) -> HttpResponse:
    """Show what one ref has that another has not."""
    principal = signed_in(request)
    page = compare_page(
        principal,
        queries.get_repository(principal, repo),
        _diff_choice(request),
        base=request.GET.get("base", ""),
        head=request.GET.get("head", ""),
    )
    return show(request, "repositories/compare.html", page)


def branches(request: HttpRequest, repo: str) -> HttpResponse:
    """List branches; POST makes one."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    form = BranchForm(request.POST or None)
    status = 200
    if request.method == "POST":
        status = InvalidInput.status
        if form.is_valid():
            fields = form.cleaned_data
            try:
                services.create_branch(
                    repository=repository, name=fields["name"], start_point=fields["start_point"], by=principal
                )
            except AppError as error:
                add_refusal(form, error)
                status = error.status
            else:
                messages.success(request, f"Branch {fields['name']} is made. Nothing was copied.")
                edits = fields["open_editor"] and fields["path"]
                view = "edit" if edits else "tree"
                return redirect(ref_url(repository, view, fields["name"], fields["path"] if edits else ""))
    page = branches_page(principal, repository, q=request.GET.get("q", "").strip(), parameters=request.GET)
    return show(request, "repositories/branches.html", page, status=status, form=form)


@require_GET
def list_options(request: HttpRequest, repo: str) -> HttpResponse:
    """List the branches that have a text in their name, for a picker or a select."""
    principal, q = signed_in(request), request.GET.get("find", "").strip()
    repository = queries.get_repository(principal, repo)
    view = request.GET.get("view", "tree")
    if view == "select":
        choices = choose(queries.list_branch_names(repository), q=q)
        return pages.render(request, "components/select_options.html", choices)
    if view not in PICKER_VIEWS:
        message = f"No picker of branches leads to {view!r}."
        raise NotFound(message)
    part = options_part(repository, view=view, q=q)
    return pages.render(request, "components/branch_options.html", part)


@require_GET
def check_branch(request: HttpRequest, repo: str) -> HttpResponse:
    """Say whether a name is free, while it is typed."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    name = request.GET.get("name", "").strip()
    problem = ""
    try:
        if name:
            services.check_branch_name_is_free(repository=repository, name=name)
    except AppError as error:
        problem = error.detail
    return pages.render(request, "repositories/_branch_check.html", {"name": name, "problem": problem})


@require_POST
def delete_branch(request: HttpRequest, repo: str) -> HttpResponse:
    """Delete a branch."""
    principal = signed_in(request)
    repository = queries.get_repository(principal, repo)
    form = DeleteBranchForm(request.POST)
    if not form.is_valid():
        message = "Say which branch to delete, and whether its data goes too."
        raise InvalidInput(message)
    name = form.cleaned_data["name"]
    row = repository.branches.filter(name=name).first()
    try:
        services.delete_branch(repository=repository, by=principal, **form.cleaned_data)
    except AppError as error:
        messages.error(request, error.detail)
    else:
        fields = [("name", name), ("head", row.announced_head if row else ""), ("parent", row.parent if row else "")]
        offer_undo(
            request, f"Branch {name} is deleted.", url=reverse("branch-restore", args=[repository.name]), fields=fields
        )
    return redirect(f"/r/{quote(repository.name)}/branches")
