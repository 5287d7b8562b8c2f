"""Pages of builds: lists, the plan before a build, the build itself, JobSpecs, lineage, and the forms' POSTs."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.builds import queries, services
from webapp.builds.queries import pages as contexts
from webapp.builds.queries.new import read_new_build_page
from webapp.core import names, pages
from webapp.core.errors import AppError, NotFound, Unauthenticated
from webapp.core.web.limits import takes_body
from webapp.datasets import queries as datasets
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.accounts.rules.principals import Principal

FILTERS = ("repository", "branch", "state", "by", "q")
FRAGMENTS = {"live", "log"}
UPLOAD_SECONDS = 25


def who(request: HttpRequest) -> Principal:
    """Return who is asking; nobody is sent to sign in."""
    principal: Principal | None = getattr(request, "principal", None)
    if principal is None:
        raise Unauthenticated("Sign in to see builds.")
    return principal


@require_GET
def list_builds(request: HttpRequest) -> HttpResponse:
    """All builds that somebody may see."""
    page = contexts.read_builds_page(who(request), filters=_read_filters(request), page=_read_page(request))
    return pages.render(request, "builds/builds.html", page, fragment="list")


@require_GET
def list_repository_builds(request: HttpRequest, name: str) -> HttpResponse:
    """The builds of one repository."""
    repository = repositories.get_repository(who(request), name)
    if request.GET.get("fragment") == "sidebar":
        branch = names.check_branch_name(request.GET.get("branch") or repository.default_branch)
        sidebar = contexts.read_builds_sidebar(who(request), repository=repository, branch=branch)
        return pages.render(request, "builds/_sidebar_builds.html", sidebar)
    filters = {**_read_filters(request), "repository": ""}
    page = contexts.read_builds_page(who(request), repository=repository, filters=filters, page=_read_page(request))
    return pages.render(request, "builds/repository-builds.html", page, fragment="list")


def _read_filters(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip() for name in FILTERS}


def _read_page(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


@require_GET
def show_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """One build: state, plan, jobs, time line, log."""
    page = contexts.read_build_page(who(request), build_id, job=request.GET.get("job", ""))
    fragment = request.GET.get("fragment", "")
    return pages.render(request, "builds/build.html", page, fragment=fragment if fragment in FRAGMENTS else None)


@require_http_methods(["GET", "POST"])
def new_build(request: HttpRequest) -> HttpResponse:
    """Choose targets, look at the plan, start."""
    data = request.POST if request.method == "POST" else request.GET
    targets = tuple(dict.fromkeys(each for each in data.getlist("target") if each))
    page = read_new_build_page(
        who(request),
        repository=data.get("repository", ""),
        branch=data.get("branch", ""),
        targets=targets,
        upstream=bool(data.get("upstream")),
        force=bool(data.get("force")),
    )
    if request.method == "GET" or page.problem:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if request.method == "POST" else HTTPStatus.OK
        return pages.render(request, "builds/build-new.html", page, fragment="plan", status=status)
    build = services.start_build(
        branch=page.branch,
        targets=targets,
        repository=page.repository,
        upstream=page.upstream,
        force=page.force,
        by=who(request),
    )
    return redirect("build", build.pk)


@require_POST
def cancel_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """Cancel a build."""
    build = queries.get_build(who(request), build_id)
    services.cancel_build(build=build, by=who(request))
    messages.success(request, f"Build {build_id} is being cancelled.")
    return redirect("build", build_id)


@require_POST
def retry_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """Try a build again."""
    build = queries.get_build(who(request), build_id)
    again = services.retry_build(build=build, by=who(request))
    return redirect("build", again.pk)


@require_GET
def show_plan(request: HttpRequest, build_id: int) -> HttpResponse:
    """The plan of a build as JSON."""
    build = queries.get_build(who(request), build_id)
    if build.plan is None:
        message = f"Build {build_id} has no plan: {build.reason or 'it is being made.'}"
        raise NotFound(message)
    return HttpResponse(queries.dump_plan(build), content_type="application/json")


@require_GET
def download_log(request: HttpRequest, job_id: str) -> FileResponse:
    """The log of a job as a file."""
    job = queries.get_job(who(request), job_id)
    path = queries.log_file(job)
    if not path.exists():
        message = f"Job {job_id} has written no log yet."
        raise NotFound(message)
    name = f"build-{job.build_id}-job-{job.number}.log"
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="text/plain; charset=utf-8")


@require_GET
def list_jobspecs(request: HttpRequest, name: str) -> HttpResponse:
    """The JobSpecs that a branch sees; `?fragment=sidebar` is the short list beside the files."""
    repository = repositories.get_repository(who(request), name)
    branch = names.check_branch_name(request.GET.get("branch") or repository.default_branch)
    page = contexts.read_jobspecs_page(repository=repository, branch=branch)
    if request.GET.get("fragment") == "sidebar":
        return pages.render(request, "builds/_sidebar_jobspecs.html", page)
    return pages.render(request, "builds/repository-jobspecs.html", page)


@require_GET
def show_lineage(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """What a dataset is made from and what is made from it: a fragment of the dataset's page."""
    dataset = datasets.get_dataset(who(request), dataset_id)
    branch = names.check_branch_name(request.GET.get("branch") or names.MASTER)
    page = contexts.read_lineage_page(who(request), dataset=dataset, branch=branch)
    template = "builds/_freshness.html" if request.GET.get("fragment") == "freshness" else "builds/_lineage.html"
    return pages.render(request, template, page)


@require_POST
@takes_body(settings.TRIBUTARY_UPLOAD_BYTES)
def upload(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Load a file into a dataset from its page; the build shows what becomes of it."""
    principal = who(request)
    dataset = datasets.get_dataset(principal, dataset_id)
    branch = request.POST.get("branch") or names.MASTER
    back = f"/d{dataset.path}?{urlencode({'branch': branch})}"
    file = request.FILES.get("file")
    if file is None:
        messages.error(request, "Choose a file to upload.")
        return redirect(back)
    try:
        build = services.start_upload(
            dataset=dataset,
            branch=branch,
            mode=request.POST.get("mode") or "snapshot",
            content=file.chunks(),
            filename=file.name or "",
            by=principal,
            into=request.POST.get("transaction") or None,
        )
        build = services.wait_for_build(build=build, seconds=UPLOAD_SECONDS)
        if not build.is_over:
            return redirect("build", build.pk)
        services.check_upload(build=build)
    except AppError as error:
        messages.error(request, error.detail)
        return redirect(back)
    messages.success(request, f"{file.name} is loaded into {dataset.path} on {branch}.")
    return redirect(back)
