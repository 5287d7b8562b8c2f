"""Pages of builds: lists, the plan before a build, the build itself, JobSpecs, lineage, and the forms' POSTs."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus

from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.accounts.permissions import signed_in
from webapp.accounts.services import note_reading
from webapp.builds import queries, services
from webapp.builds.pages import new
from webapp.builds.pages.build import read_build_page
from webapp.builds.pages.builds import read_builds_page, read_builds_sidebar
from webapp.builds.pages.jobspecs import read_jobspecs_page
from webapp.builds.pages.lineage import read_freshness_part, read_lineage_page
from webapp.builds.pages.links import list_branch_links
from webapp.builds.pages.new import NewBuild
from webapp.core import names, pages
from webapp.core.errors import NotFound
from webapp.datasets import queries as datasets
from webapp.repositories import queries as repositories

FRAGMENTS = {"live", "log"}


@require_GET
def list_builds(request: HttpRequest) -> HttpResponse:
    """Show all builds that the reader can see."""
    filters = queries.BuildFilter.read_page(request.GET)
    page = read_builds_page(signed_in(request), filters=filters, parameters=request.GET)
    return pages.render(request, "builds/builds.html", page, fragment="list")


@require_GET
def list_repository_builds(request: HttpRequest, name: str) -> HttpResponse:
    """Show the builds of one repository."""
    repository = repositories.get_repository(signed_in(request), name)
    if request.GET.get("fragment") == "sidebar":
        branch = names.check_branch_name(request.GET.get("branch") or repository.default_branch)
        sidebar = read_builds_sidebar(signed_in(request), repository=repository, branch=branch)
        return pages.render(request, "builds/_sidebar_builds.html", sidebar)
    filters = replace(queries.BuildFilter.read_page(request.GET), repository="")
    page = read_builds_page(signed_in(request), repository=repository, filters=filters, parameters=request.GET)
    return pages.render(request, "builds/repository-builds.html", page, fragment="list")


def _read_page(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 6 else 1


@require_GET
def show_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """Show one build: state, plan, jobs, time line, log."""
    number = _read_page(request) if "page" in request.GET else None
    page = read_build_page(signed_in(request), build_id, job=request.GET.get("job", ""), page=number)
    if page.log is not None:
        note_reading(by=signed_in(request), verb="read_log", object=page.log.owner)
    fragment = request.GET.get("fragment", "")
    return pages.render(request, "builds/build.html", page, fragment=fragment if fragment in FRAGMENTS else None)


@require_http_methods(["GET", "POST"])
def new_build(request: HttpRequest) -> HttpResponse:
    """Choose targets, look at the plan, start."""
    is_sent = request.method == "POST"
    fields = request.POST if is_sent else request.GET
    order = NewBuild(
        repository=fields.get("repository", ""),
        branch=fields.get("branch", ""),
        targets=_read_targets(fields) if is_sent or "chosen" in fields or "target" in fields else None,
        is_all=fields.get("pick") == "stale",
        upstream=bool(fields.get("upstream")),
        downstream=bool(fields.get("downstream")),
        force=bool(fields.get("force")),
        q=fields.get("q", "").strip(),
    )
    if not is_sent and pages.wants_fragment(request):
        return _show_new_build_part(request, order)
    page = new.read_new_build_page(signed_in(request), order)
    planned = page.planned
    if not is_sent or planned.plan is None or planned.refusal:
        status = HTTPStatus.UNPROCESSABLE_ENTITY if is_sent else HTTPStatus.OK
        return pages.render(request, "builds/build-new.html", page, status=status)
    build = services.start_build(order=planned.order, by=signed_in(request))
    return redirect("build", build.pk)


def _show_new_build_part(request: HttpRequest, order: NewBuild) -> HttpResponse:
    """Answer with what changed of the page: the datasets or branches that were searched for, else the plan."""
    part = request.GET.get("fragment", "plan")
    if part == "branches":
        links = new.list_branches(signed_in(request), order, q=request.GET.get("find", "").strip())
        return pages.render(request, "components/branch_options.html", links)
    if part == "targets":
        chosen = new.read_targets(signed_in(request), order)
        return pages.render(request, "builds/build-new.html", {"chosen": chosen}, fragment="targets")
    return pages.render(
        request, "builds/build-new.html", new.read_plan_fragment(signed_in(request), order), fragment="plan"
    )


def _read_targets(fields: QueryDict) -> tuple[str, ...] | None:
    """Return the ticked datasets; None to have those ticked that are stale."""
    pick = fields.get("pick")
    if pick in ("own", "stale"):
        return None
    return () if pick == "none" else tuple(dict.fromkeys(path for path in fields.getlist("target") if path))


@require_POST
def cancel_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """Cancel a build."""
    build = queries.get_build(signed_in(request), build_id)
    services.cancel_build(build=build, by=signed_in(request))
    messages.success(request, f"Build {build_id} is being cancelled.")
    return redirect("build", build_id)


@require_POST
def retry_build(request: HttpRequest, build_id: int) -> HttpResponse:
    """Try a build again."""
    build = queries.get_build(signed_in(request), build_id)
    again = services.retry_build(build=build, by=signed_in(request))
    return redirect("build", again.pk)


@require_GET
def show_plan(request: HttpRequest, build_id: int) -> HttpResponse:
    """Show the plan of a build as JSON."""
    build = queries.get_build(signed_in(request), build_id)
    if build.plan is None:
        message = f"Build {build_id} has no plan: {build.reason or 'it is being made.'}"
        raise NotFound(message)
    return HttpResponse(queries.dump_plan(build), content_type="application/json")


@require_GET
def download_log(request: HttpRequest, job_id: str) -> FileResponse:
    """Send the log of a job as a file."""
    job = queries.get_job(signed_in(request), job_id)
    path = queries.log_file(job)
    if not path.exists():
        message = f"Job {job_id} has written no log yet."
        raise NotFound(message)
    note_reading(by=signed_in(request), verb="read_log", object=queries.find_log_owner(job))
    name = f"build-{job.build_id}-job-{job.number}.log"
    return FileResponse(path.open("rb"), as_attachment=True, filename=name, content_type="text/plain; charset=utf-8")


@require_GET
def list_jobspecs(request: HttpRequest, name: str) -> HttpResponse:
    """Show the JobSpecs that a branch sees; `?fragment=sidebar` is the short list beside the files."""
    repository = repositories.get_repository(signed_in(request), name)
    branch = names.check_branch_name(request.GET.get("branch") or repository.default_branch)
    if request.GET.get("fragment") == "branches":
        q = request.GET.get("find", "").strip()
        links = list_branch_links(repository, f"/r/{repository.name}/jobspecs", q=q)
        return pages.render(request, "components/branch_options.html", links)
    page = read_jobspecs_page(
        repository=repository, branch=branch, q=request.GET.get("q", "").strip(), page=_read_page(request)
    )
    if request.GET.get("fragment") == "sidebar":
        return pages.render(request, "builds/_sidebar_jobspecs.html", page)
    return pages.render(request, "builds/repository-jobspecs.html", page)


@require_GET
def show_lineage(request: HttpRequest, dataset_id: int) -> HttpResponse:
    """Show what a dataset is made from and what is made from it: a fragment of the dataset's page."""
    dataset = datasets.get_dataset(signed_in(request), dataset_id)
    branch = names.check_branch_name(request.GET.get("branch") or names.MASTER)
    if request.GET.get("fragment") == "freshness":
        part = read_freshness_part(signed_in(request), dataset=dataset, branch=branch)
        return pages.render(request, "builds/_freshness.html", part)
    page = read_lineage_page(signed_in(request), dataset=dataset, branch=branch)
    return pages.render(request, "builds/_lineage.html", page)
