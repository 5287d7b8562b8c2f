"""The pages of datasets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import messages
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts import services as accounts
from webapp.accounts.permissions import signed_in
from webapp.core import names, pages
from webapp.core.errors import AppError, InvalidInput, NotFound
from webapp.datasets import forms, queries, services
from webapp.datasets.pages import datasets as dataset_pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse

    from webapp.core.principals import Principal
    from webapp.datasets.models import Dataset, Transaction


@require_GET
def list_datasets(request: HttpRequest) -> HttpResponse:
    """Show all datasets that the reader may see, by folder."""
    filters = queries.DatasetFilter.read_page(request.GET)
    page = dataset_pages.read_datasets_page(signed_in(request), filters=filters, parameters=request.GET)
    return pages.render(request, "datasets/datasets.html", page, fragment="list")


@require_GET
def list_repository_datasets(request: HttpRequest, name: str) -> HttpResponse:
    """Show the datasets of a repository's folders."""
    filters = replace(queries.DatasetFilter.read_page(request.GET), folder="")
    page = dataset_pages.read_datasets_page(
        signed_in(request), filters=filters, parameters=request.GET, repository=name
    )
    return pages.render(request, "datasets/datasets.html", page, fragment="list")


@require_http_methods(["GET", "POST"])
def new_dataset(request: HttpRequest) -> HttpResponse:
    """Make an empty dataset; its page then takes a file."""
    principal = signed_in(request)
    folder = request.GET.get("folder", "").strip("/")
    form = forms.NewDatasetForm(request.POST or None, initial={"path": f"/{folder}/" if folder else ""})
    if request.method == "POST" and form.is_valid():
        try:
            dataset = services.create_dataset(**form.cleaned_data, by=principal)
        except AppError as error:
            _add_refusal(form, error)
        else:
            return redirect("dataset", dataset.path[1:])
    context = {"nav": "datasets", "form": form}
    return pages.render(request, "datasets/dataset-new.html", context, status=422 if form.errors else 200)


@require_GET
def show_dataset(request: HttpRequest, path: str) -> HttpResponse:
    """Show a dataset on a branch, or as a transaction left it."""
    return _show(request, path)


@require_POST
def create_branch(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Make a branch of a dataset from its page."""
    principal = signed_in(request)
    form = forms.NewBranchForm(request.POST)
    dataset = queries.get_dataset(principal, dataset_id)
    if form.is_valid():
        try:
            queries.get_dataset(principal, dataset_id, action="write", branch=form.cleaned_data["name"])
            branch = services.create_branch(
                dataset=dataset, name=form.cleaned_data["name"], **form.read_start(), by=principal
            )
        except AppError as error:
            _add_refusal(form, error)
        else:
            messages.success(request, f"Branch {branch.name} is made. Nothing was copied.")
            return redirect(_address(dataset, branch=branch.name, tab="branches"))
    return _show(request, dataset.path[1:], form=form, tab="branches", status=422)


@require_POST
def delete_branch(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Delete a branch of a dataset from its page; its transactions stay."""
    principal = signed_in(request)
    form = forms.DeleteDatasetBranchForm(request.POST)
    dataset = queries.get_dataset(principal, dataset_id)
    name = form.cleaned_data["name"] if form.is_valid() else ""
    try:
        queries.get_dataset(principal, dataset_id, action="write", branch=name)
        services.delete_branch(dataset=dataset, name=name, by=principal)
    except AppError as error:
        messages.error(request, error.detail)
    else:
        messages.success(
            request,
            f"Branch {name} is deleted. Its transactions stay in the history, and it can be restored for a time.",
        )
    return redirect(_address(dataset, tab="branches"))


@require_POST
def set_branch_parent(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Set the parent of a branch from a page."""
    principal = signed_in(request)
    form = forms.BranchParentForm(request.POST)
    dataset = queries.get_dataset(principal, dataset_id)
    name = form.cleaned_data["name"] if form.is_valid() else ""
    try:
        queries.get_dataset(principal, dataset_id, action="write", branch=name)
        parent = form.cleaned_data["parent"] or None if form.is_valid() else None
        services.set_parent(dataset=dataset, name=name, parent=parent, by=principal)
    except AppError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"The parent of {name} is {parent}." if parent else f"{name} is a root branch.")
    return redirect(_address(dataset, tab="branches", **({"branch": name} if name else {})))


@require_POST
def restore_branch(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Bring a deleted branch of a dataset back from its page."""
    principal = signed_in(request)
    form = forms.RestoreBranchForm(request.POST)
    dataset = queries.get_dataset(principal, dataset_id)
    try:
        number = form.cleaned_data["deleted"] if form.is_valid() else 0
        deletion = queries.get_deleted_branch(dataset, number)
        queries.get_dataset(principal, dataset_id, action="write", branch=deletion.name)
        branch = services.restore_branch(deletion=deletion, by=principal)
    except AppError as error:
        messages.error(request, error.detail)
        return redirect(_address(dataset, tab="branches"))
    messages.success(request, f"Branch {branch.name} is back, with its transactions.")
    return redirect(_address(dataset, branch=branch.name, tab="branches"))


@require_POST
def start_transaction(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Start a transaction on a branch from the dataset's page."""
    principal = signed_in(request)
    dataset = queries.get_dataset(principal, dataset_id)
    form = forms.NewTransactionForm(request.POST)
    branch = form.data.get("branch", "")
    try:
        if not form.is_valid():
            message = "Choose a branch and a type of transaction."
            raise InvalidInput(message)
        queries.get_dataset(principal, dataset_id, action="write", branch=branch)
        opened = services.start_transaction(
            dataset=dataset, branch=branch, type=form.cleaned_data["type"], by=principal
        )
    except AppError as error:
        messages.error(request, error.detail)
    else:
        messages.success(
            request, f"Transaction {opened.pk} is open on {branch}. Readers see nothing of it until it is committed."
        )
    return redirect(_address(dataset, branch=branch, tab="history"))


@require_POST
def commit_transaction(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Commit an open transaction from the dataset's page."""

    def commit(transaction: Transaction, by: Principal) -> str:
        services.commit_by_hand(transaction=transaction, by=by)
        return f"Transaction {transaction.pk} is committed: readers of {transaction.branch_name} see it."

    return _close_transaction(request, dataset_id, commit)


@require_POST
def abort_transaction(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Abort an open transaction from the dataset's page."""

    def abort(transaction: Transaction, by: Principal) -> str:
        services.abort_by_hand(transaction=transaction, by=by)
        return (
            f"Transaction {transaction.pk} is aborted: nothing of it is visible, and {transaction.branch_name} is free."
        )

    return _close_transaction(request, dataset_id, abort)


def _close_transaction(
    request: HttpRequest, dataset_id: int, close: Callable[[Transaction, Principal], str]
) -> HttpResponse:
    principal = signed_in(request)
    dataset = queries.get_dataset(principal, dataset_id)
    form = forms.CloseTransactionForm(request.POST)
    branch = names.MASTER
    try:
        transaction = queries.get_transaction(dataset, form.cleaned_data["transaction"] if form.is_valid() else "")
        branch = transaction.branch_name
        queries.get_dataset(principal, dataset_id, action="write", branch=branch)
        messages.success(request, close(transaction, principal))
    except AppError as error:
        messages.error(request, error.detail)
    return redirect(_address(dataset, branch=branch, tab="history"))


def _show(
    request: HttpRequest, path: str, *, form: forms.NewBranchForm | None = None, tab: str = "", status: int = 200
) -> HttpResponse:
    principal = signed_in(request)
    branch = request.GET.get("branch") or names.MASTER
    dataset_request = dataset_pages.DatasetRequest(
        branch=branch,
        transaction=request.GET.get("transaction", ""),
        tab=tab or _choose_tab(request),
        q=request.GET.get("q", "").strip(),
        sort=request.GET.get("sort", ""),
        page=_number(request, "page", 0),
        branch_page=_number(request, "branch_page", 0),
        only=request.GET.get("own") == "1",
        aborted=request.GET.get("aborted", "1") != "0",
        host=request.build_absolute_uri("/").rstrip("/"),
        start=form["start"].value() or "" if form else "",
    )
    if request.GET.get("fragment") in {"branches", "options"}:
        return _show_branches(request, principal, dataset_request, path=f"/{path.strip('/')}")
    if dataset_request.tab == "compare" and pages.wants_part(request, "row-diff"):
        dataset = queries.get_dataset(principal, f"/{path.strip('/')}")
        return redirect(f"{reverse('dataset-compare', args=[dataset.pk])}?{request.GET.urlencode()}")
    page = dataset_pages.read_dataset_page(principal, path=f"/{path.strip('/')}", request=dataset_request)
    if page.preview is not None:
        accounts.note_reading(by=principal, verb="read_preview", object=page.dataset.path, branch=page.branch)
    context: dict[str, Any] = {**vars(page), "page": page, "form": form or forms.NewBranchForm()}
    return render(request, "datasets/dataset.html", context, status=status)


def _show_branches(
    request: HttpRequest, principal: Principal, dataset_request: dataset_pages.DatasetRequest, *, path: str
) -> HttpResponse:
    """Answer with the branches that have a text in their name, for the picker or for a select."""
    q = request.GET.get("find", "").strip()
    if request.GET["fragment"] == "options":
        choices = dataset_pages.choose_branches(principal, path=path, q=q)
        return pages.render(request, "components/select_options.html", choices)
    picker = dataset_pages.read_branch_picker(principal, path=path, request=dataset_request, q=q)
    return pages.render(request, "components/branch_options.html", picker)


def _choose_tab(request: HttpRequest) -> str:
    tab = request.GET.get("tab", "preview")
    if tab not in dataset_pages.TAB_NAMES:
        message = f"A dataset's page has no tab {tab}."
        raise NotFound(message)
    return tab


def _address(dataset: Dataset, **query: str) -> str:
    return f"/d{dataset.path}?{urlencode(query)}"


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else default


def _add_refusal(form: Any, error: AppError) -> None:
    """Show a refusal of a service on the field that it is about, else above the form."""
    errors: Any = error.errors
    fields = {name: texts for name, texts in errors.items() if name in form.fields} if isinstance(errors, dict) else {}
    for name, texts in fields.items():
        form.add_error(name, [str(problem) for problem in texts])
    if not fields:
        form.add_error(None, error.detail)
