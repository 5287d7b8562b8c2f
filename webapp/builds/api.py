"""REST endpoints of builds, jobs, JobSpecs, lineage and uploads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts.services import note_reading
from webapp.builds import queries, serializers, services
from webapp.builds.forms import read_file_form
from webapp.builds.rules.files import DELIMITERS, TYPES
from webapp.core import names
from webapp.core.api import ApiView
from webapp.core.errors import BadRequest, InvalidInput
from webapp.core.inputs import Unknown, read_input, refuse_unknown, show_name
from webapp.core.numbers import read_count
from webapp.core.openapi import describe_filters, refusals
from webapp.core.pagination import paginate, read_limit
from webapp.core.uploads import take_content
from webapp.datasets import queries as datasets
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.builds.models import Build, PublishedSpec

BRANCH = OpenApiParameter("branch", str, description="default: master")
ACCEPTED = {202: serializers.BuildDetailSerializer}
UPLOAD_SECONDS = 30
LOG_LINES = 1000
MAX_LOG_LINES = 10_000


class BuildList(ApiView):
    """GET and POST `/builds`."""

    @extend_schema(
        operation_id="listBuilds",
        parameters=describe_filters(queries.BuildFilter),
        responses={200: serializers.BuildSerializer(many=True), **refusals(422)},
    )
    def get(self, request: Request) -> Response:
        """List builds, newest first."""
        builds = queries.list_builds(self.principal, queries.BuildFilter.read_api(request.GET))
        return Response(paginate(request._request, builds, serializers.BuildSerializer, look_up=_look_up))

    @extend_schema(
        operation_id="startBuild",
        request=serializers.NewBuildSerializer,
        responses={200: serializers.PlannedBuildSerializer, **ACCEPTED},
    )
    def post(self, _request: Request) -> Response:
        """Start a build, or with `dry_run` only plan it."""
        fields = read_input(serializers.NewBuildSerializer, self.body)
        is_dry_run, name = fields.pop("dry_run"), fields.pop("repository")
        repository = repositories.get_repository(self.principal, name) if name else None
        order = services.BuildOrder(**fields, repository=repository)
        if is_dry_run:
            planned = services.plan_build(order=order, by=self.principal)
            return Response(serializers.PlannedBuildSerializer(planned).data)
        return answer_build(services.start_build(order=order, by=self.principal).pk, self)


class BuildDetail(ApiView):
    """GET `/builds/{id}`."""

    @extend_schema(operation_id="getBuild", responses=serializers.BuildDetailSerializer)
    def get(self, _request: Request, build_id: int) -> Response:
        """Return a build with its plan and jobs."""
        return Response(_read_build(build_id, self))


class BuildCancel(ApiView):
    """POST `/builds/{id}/cancel`."""

    takes_body = False

    @extend_schema(operation_id="cancelBuild", request=None, responses=ACCEPTED)
    def post(self, _request: Request, build_id: int) -> Response:
        """Cancel a build."""
        build = queries.get_build(self.principal, build_id)
        services.cancel_build(build=build, by=self.principal)
        return answer_build(build_id, self)


class BuildRetry(ApiView):
    """POST `/builds/{id}/retry`."""

    takes_body = False

    @extend_schema(operation_id="retryBuild", request=None, responses=ACCEPTED)
    def post(self, _request: Request, build_id: int) -> Response:
        """Build again what did not complete."""
        build = queries.get_build(self.principal, build_id)
        return answer_build(services.retry_build(build=build, by=self.principal).pk, self)


def answer_build(build_id: int, view: ApiView, *, status: int = 202) -> Response:
    """Answer with a build and where to poll it."""
    return Response(_read_build(build_id, view), status=status, headers={"Location": f"/api/v1/builds/{build_id}"})


def _read_build(build_id: int, view: ApiView) -> dict[str, Any]:
    build = queries.get_build(view.principal, build_id)
    queries.load_jobs([build])
    return serializers.BuildDetailSerializer(build, context=_look_up([build])).data


def _look_up(builds: list[Build]) -> dict[str, Any]:
    return {"reasons": queries.read_reasons(builds=builds)}


class JobDetail(ApiView):
    """GET `/jobs/{id}`."""

    @extend_schema(operation_id="getJob", responses=serializers.JobSerializer)
    def get(self, _request: Request, job_id: str) -> Response:
        """Return a job with its inputs and outputs."""
        return Response(serializers.JobSerializer(queries.get_job(self.principal, job_id)).data)


class JobLog(ApiView):
    """GET `/jobs/{id}/log`."""

    @extend_schema(
        operation_id="getJobLog",
        parameters=[
            OpenApiParameter("after", int, description="the number of a line", default=0),
            OpenApiParameter("limit", int, description=f"at most {MAX_LOG_LINES}", default=LOG_LINES),
        ],
        responses=serializers.LogSerializer,
    )
    def get(self, request: Request, job_id: str) -> Response:
        """Return lines of a job's log after a line number."""
        job = queries.get_job(self.principal, job_id)
        after = request.GET.get("after", "0") or "0"
        line = read_count(after)
        if line is None:
            message = f"after is the number of a line, not {after!r}."
            raise BadRequest(message, errors={"after": ["A number from 0."]})
        limit = read_limit(request._request, default=LOG_LINES, most=MAX_LOG_LINES)
        note_reading(by=self.principal, verb="read_log", object=queries.find_log_owner(job))
        return Response(serializers.LogSerializer(queries.read_log(job, after=line, limit=limit)).data)


class JobSpecList(ApiView):
    """GET `/repositories/{repo}/jobspecs`."""

    @extend_schema(operation_id="listJobSpecs", parameters=[BRANCH], responses=serializers.JobSpecSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List the JobSpecs that a build on a branch would use."""
        repository = repositories.get_repository(self.principal, repo)
        branch = request.GET.get("branch") or repository.default_branch
        specs = queries.list_jobspecs(repository=repository, branch=names.check_branch_name(branch))

        def look_up(rows: list[PublishedSpec]) -> dict[str, Any]:
            return {"depends_on": queries.describe_dependencies(rows)}

        return Response(paginate(request._request, specs, serializers.JobSpecSerializer, look_up=look_up))


class DatasetLineage(ApiView):
    """GET `/datasets/{id}/lineage`."""

    @extend_schema(operation_id="getLineage", parameters=[BRANCH], responses=serializers.LineageSerializer)
    def get(self, request: Request, dataset_id: int) -> Response:
        """Return what a dataset is made from and what is made from it."""
        dataset = datasets.get_dataset(self.principal, dataset_id)
        branch = names.check_branch_name(request.GET.get("branch") or names.MASTER)
        lineage = queries.read_lineage(self.principal, dataset=dataset, branch=branch)
        return Response(serializers.LineageSerializer(lineage).data)


def _check_form(request: Request) -> None:
    """Reject form fields other than one file: a branch sent as a field would be ignored, and master written."""
    hint = "The form has the field 'file' alone: parameters belong in the address, behind the '?'."
    refuse_unknown(Unknown(show_name(name), hint) for name in sorted({*request.POST, *request.FILES} - {"file"}))
    if len(request.FILES.getlist("file")) > 1:
        message = "The form has more than one file. Load one file at a time."
        raise BadRequest(message, code="repeated_member", errors={"file": ["Repeated."]})


class DatasetUpload(ApiView):
    """POST `/datasets/{id}/upload`."""

    parser_classes = (MultiPartParser,)
    max_body_bytes = settings.TRIBUTARY_UPLOAD_BYTES

    @extend_schema(
        operation_id="uploadFile",
        parameters=[
            BRANCH,
            OpenApiParameter("mode", str, enum=["snapshot", "append"], default="snapshot"),
            OpenApiParameter("transaction", str, description="an open one, to write into"),
            OpenApiParameter(
                "delimiter",
                str,
                enum=DELIMITERS.values(),
                description="of a CSV file; default: found in its first line",
            ),
            OpenApiParameter("header", bool, default=True, description="whether a CSV file's first line names columns"),
            OpenApiParameter(
                "types",
                str,
                description='column → type as JSON, such as {"code": "string"}, of any format, where no value loses '
                f"anything; the others' types are found in the whole file. Types: {', '.join(TYPES)}",
            ),
        ],
        request={
            "multipart/form-data": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary"}},
            }
        },
        responses={201: serializers.LoadedBuildSerializer, 202: serializers.LoadedBuildSerializer},
    )
    def post(self, request: Request, dataset_id: int) -> Response:
        """Load a file into a dataset: one transaction, all or nothing."""
        dataset = datasets.get_dataset(self.principal, dataset_id)
        _check_form(request)
        file = request.FILES.get("file")
        if file is None:
            raise InvalidInput("Send the file as the multipart field 'file'.", errors={"file": ["Required."]})
        build = services.start_upload(
            dataset=dataset,
            branch=request.GET.get("branch") or names.MASTER,
            mode=request.GET.get("mode") or "snapshot",
            content=take_content(file),
            filename=file.name or "",
            by=self.principal,
            into=request.GET.get("transaction") or None,
            form=read_file_form(request.GET),
        )
        build = services.wait_for_build(build=build, seconds=UPLOAD_SECONDS)
        if not build.is_over:
            return _answer_upload(build.pk, self, status=202)
        services.check_upload(build=build)
        return _answer_upload(build.pk, self, status=201)


def _answer_upload(build_id: int, view: ApiView, *, status: int) -> Response:
    build = queries.get_build(view.principal, build_id)
    queries.load_jobs([build])
    answer = serializers.LoadedBuildSerializer(build, context=_look_up([build])).data
    return Response(answer, status=status, headers={"Location": f"/api/v1/builds/{build_id}"})
