"""The pages that load a file into a dataset: choose it, look at its columns, say where it goes; the build shows the rest."""

from __future__ import annotations

from http import HTTPStatus

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect

from webapp.accounts.permissions import signed_in
from webapp.builds import services
from webapp.builds.pages.uploads import Destination, read_check_page, read_upload_page
from webapp.builds.queries.drafts import get_draft
from webapp.builds.rules.files import FileForm
from webapp.core import names, pages
from webapp.core.errors import AppError, InvalidInput, PermissionDenied
from webapp.core.uploads import take_content
from webapp.runtime.web.limits import takes_body

TYPE_PREFIX = "type."


@require_http_methods(["GET", "POST"])
@takes_body(settings.TRIBUTARY_UPLOAD_BYTES)
def send_file(request: HttpRequest) -> HttpResponse:
    """Choose a file and a dataset; the file is kept, and the next page shows what is in it."""
    fields = request.POST if request.method == "POST" else request.GET
    destination = _read_destination(fields)
    page = read_upload_page(signed_in(request), destination)
    if request.method == "GET":
        return pages.render(request, "builds/upload.html", page)
    try:
        if page.refusal:
            raise PermissionDenied(page.refusal)
        token = _keep_file(request, destination)
    except AppError as error:
        if request.htmx:  # type: ignore[attr-defined]  # set by a middleware
            raise
        page = read_upload_page(signed_in(request), destination, problem=error.detail)
        return pages.render(request, "builds/upload.html", page, status=error.status)
    query = urlencode({"dataset": destination.path, "branch": destination.branch})
    address = f"{reverse('upload-check', args=[token])}?{query}"
    return HttpResponseClientRedirect(address) if request.htmx else redirect(address)  # type: ignore[attr-defined]


def _keep_file(request: HttpRequest, destination: Destination) -> str:
    names.split_dataset_path(destination.path)
    file = request.FILES.get("file")
    if file is None:
        raise InvalidInput("Choose a file to load.", errors={"file": ["Required."]})
    return services.keep_draft(content=take_content(file), filename=file.name or "", by=signed_in(request))


@require_http_methods(["GET", "POST"])
def check_file(request: HttpRequest, draft: str) -> HttpResponse:
    """Look at the columns of a file that was sent, and load it."""
    sent = get_draft(signed_in(request), draft)
    fields = request.POST if request.method == "POST" else request.GET
    destination, form = _read_destination(fields), _read_form(fields)
    problem = ""
    if request.method == "POST":
        try:
            build = services.load_draft(
                draft=sent,
                path=destination.path,
                branch=destination.branch or names.MASTER,
                mode=destination.mode,
                form=form,
                by=signed_in(request),
            )
        except AppError as error:
            problem = error.detail
        else:
            return redirect("build", build.pk)
    page = read_check_page(signed_in(request), sent, destination, form, problem=problem)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if problem else HTTPStatus.OK
    return pages.render(request, "builds/upload-check.html", page, fragment="columns", status=status)


def _read_destination(fields: QueryDict) -> Destination:
    return Destination(
        path=fields.get("dataset", "").strip(),
        branch=fields.get("branch", "").strip(),
        mode=fields.get("mode") or "snapshot",
    )


def _read_form(fields: QueryDict) -> FileForm:
    types = {
        name.removeprefix(TYPE_PREFIX): kind
        for name, kind in fields.dict().items()
        if name.startswith(TYPE_PREFIX) and isinstance(kind, str) and kind
    }
    form = FileForm(delimiter=fields.get("delimiter", ""), has_header=fields.get("header", "1") == "1", types=types)
    form.check()
    return form
