"""The REST API of repositories, branches, commits, files and protections."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema
from rest_framework.response import Response

from webapp.accounts.services import note_reading
from webapp.core.api import ApiView
from webapp.core.errors import BadRequest, InvalidInput
from webapp.core.inputs import read_input
from webapp.core.openapi import describe_filters, refusals
from webapp.core.pagination import paginate
from webapp.core.preconditions import IF_MATCH, IF_NONE_MATCH, answer_tagged, check_unchanged, make_tag, quote_tag
from webapp.repositories import permissions, queries, services
from webapp.repositories import serializers as shapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.db.models import QuerySet
    from rest_framework.request import Request

    from webapp.accounts.models import RepositoryRole
    from webapp.git.values import CommitInfo
    from webapp.repositories.models import Protection, Repository

SEARCH = OpenApiParameter("q", str, description="a part of the name; empty: all")
REF = OpenApiParameter("ref", str, description="branch or commit; default: master")
CONTENTS = PolymorphicProxySerializer(
    component_name="Contents",
    serializers=[shapes.FileSerializer, shapes.EntrySerializer(many=True)],
    resource_type_field_name=None,
    many=False,
)


class RepositoryEndpoint(ApiView):
    """An endpoint below one repository that the caller may see."""

    def find(self, name: str) -> Repository:
        """Return the repository of the address."""
        return queries.get_repository(self.principal, name)

    def note_code(self, repository: Repository) -> None:
        """Count a read of the repository's code."""
        note_reading(by=self.principal, verb="read_code", object=repository.name)


class RepositoriesView(ApiView):
    """All repositories that the caller may see."""

    @extend_schema(responses=shapes.RepositorySerializer(many=True))
    def get(self, request: Request) -> Response:
        """List repositories by name."""
        repositories = queries.list_repositories(self.principal).select_related("created_by")
        return Response(paginate(request._request, repositories, shapes.RepositorySerializer))

    @extend_schema(request=shapes.NewRepositorySerializer, responses={201: shapes.RepositorySerializer})
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a repository with a first commit; the caller becomes its maintainer."""
        fields = read_input(shapes.NewRepositorySerializer, self.body)
        repository = services.create_repository(**fields, by=self.principal)
        response = Response(shapes.RepositorySerializer(repository).data, status=201)
        response["Location"] = f"/api/v1/repositories/{repository.name}"
        return response


class RepositoryView(RepositoryEndpoint):
    """One repository."""

    @extend_schema(parameters=[IF_NONE_MATCH], responses=shapes.RepositoryDetailSerializer)
    def get(self, request: Request, repo: str) -> Response:
        """Describe it, with the caller's role."""
        repository = self.find(repo)
        return answer_tagged(request, _description_tag(repository), self._describe(repository))

    @extend_schema(
        parameters=[IF_MATCH], request=shapes.RepositoryChangeSerializer, responses=shapes.RepositoryDetailSerializer
    )
    def patch(self, request: Request, repo: str) -> Response:
        """Change its description; a name stays for ever."""
        repository = self.find(repo)
        fields = read_input(shapes.RepositoryChangeSerializer, self.body)
        if fields.get("name", repository.name) != repository.name:
            message = "A repository keeps its name: folders, clones and links hang on it."
            raise InvalidInput(message, code="name_is_fixed", errors={"name": [message]})
        check_unchanged(request, _description_tag(repository))
        services.update_repository(
            repository=repository,
            description=fields.get("description", repository.description),
            by=self.principal,
        )
        return answer_tagged(request, _description_tag(repository), self._describe(repository))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Delete it with all its commits; datasets stay."""
        services.delete_repository(repository=self.find(repo), by=self.principal)
        return Response(status=204)

    def _describe(self, repository: Repository) -> Any:
        role = queries.get_role(self.principal, repository)
        return shapes.RepositoryDetailSerializer(repository, context={"role": role}).data


def _description_tag(repository: Repository) -> str:
    return base64.urlsafe_b64encode(f"{repository.pk}:{repository.description}".encode()).decode().rstrip("=")


class LintView(RepositoryEndpoint):
    """Code that is not committed yet."""

    @extend_schema(
        operation_id="lintText",
        request=shapes.TextToLintSerializer,
        responses={200: shapes.LintReportSerializer, **refusals(503)},
    )
    def post(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Return what ruff says of a text of Python, as the editor shows it at its lines. Nothing is kept."""
        permissions.check_write(self.principal, self.find(repo))
        report = queries.lint(**read_input(shapes.TextToLintSerializer, self.body))
        return Response(shapes.LintReportSerializer(report).data)


class BranchesView(RepositoryEndpoint):
    """The branches of a repository."""

    @extend_schema(parameters=[SEARCH], responses=shapes.BranchSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List branches: the default one first, then by name."""
        branches = queries.BranchList(self.find(repo), q=request.query_params.get("q", ""), is_by_name=True)
        return Response(paginate(request._request, branches, shapes.BranchSerializer))

    @extend_schema(request=shapes.NewBranchSerializer, responses={201: shapes.BranchSerializer})
    def post(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a branch off another branch or a commit. Nothing is copied."""
        repository = self.find(repo)
        fields = read_input(shapes.NewBranchSerializer, self.body)
        services.create_branch(repository=repository, **fields, by=self.principal)
        branch = queries.get_branch(repository, fields["name"])
        response = Response(shapes.BranchSerializer(branch).data, status=201)
        response["ETag"] = quote_tag(branch.head)
        return response


class BranchView(RepositoryEndpoint):
    """One branch."""

    @extend_schema(parameters=[IF_NONE_MATCH], responses=shapes.BranchSerializer)
    def get(self, request: Request, repo: str, branch: str) -> Response:
        """Describe it; its ETag is its head."""
        row = queries.get_branch(self.find(repo), branch)
        return answer_tagged(request, row.head, shapes.BranchSerializer(row).data)

    @extend_schema(
        parameters=[IF_MATCH, OpenApiParameter("data", str, enum=["delete", "keep"], default="delete")],
        responses={204: None},
    )
    def delete(self, request: Request, repo: str, branch: str) -> Response:
        """Delete it; its dataset branches go too unless `data=keep`."""
        data = request.query_params.get("data", "delete")
        if data not in {"delete", "keep"}:
            message = "data is 'delete' or 'keep'."
            raise BadRequest(message, code="bad_data")
        repository = self.find(repo)
        if "If-Match" in request.headers:
            check_unchanged(request, queries.get_head(repository, branch))
        services.delete_branch(
            repository=repository, name=branch, data="keep" if data == "keep" else "delete", by=self.principal
        )
        return Response(status=204)


class CommitsView(RepositoryEndpoint):
    """The commits of a branch."""

    max_body_bytes = 140_000_000
    """The bytes that one commit may bring, as base64."""

    @extend_schema(
        parameters=[OpenApiParameter("branch", str), *describe_filters(queries.CommitFilter)],
        responses=shapes.ListedCommitSerializer(many=True),
    )
    def get(self, request: Request, repo: str) -> Response:
        """List commits, newest first."""
        repository = self.find(repo)
        branch = request.query_params.get("branch") or repository.default_branch
        filters = queries.CommitFilter.read_api(request.query_params)
        commits = queries.LazyCommits(repository, branch, filters=filters)

        def look_up(page: list[CommitInfo]) -> dict[str, Any]:
            shas = [commit.sha for commit in page]
            return {"publications": queries.publications_of_commits(repository, shas, branch=branch)}

        return Response(paginate(request._request, commits, shapes.ListedCommitSerializer, look_up=look_up))

    @extend_schema(
        parameters=[IF_MATCH], request=shapes.NewCommitSerializer, responses={201: shapes.MadeCommitSerializer}
    )
    def post(self, request: Request, repo: str) -> Response:
        """Commit changes of files, in one piece or not at all.

        With `expected_head` (or If-Match) a branch that has moved answers 409 (412) and names its new head.
        """
        repository = self.find(repo)
        fields = read_input(shapes.NewCommitSerializer, self.body)
        branch = fields["branch"]
        if "If-Match" in request.headers:
            check_unchanged(request, queries.get_head(repository, branch))
        commit = services.commit_files(
            repository=repository,
            branch=branch,
            message=fields["message"],
            changes=[_change(change) for change in fields["changes"]],
            expected_head=fields["expected_head"] or None,
            by=self.principal,
        )
        published = queries.get_publication(repository, branch, commit.sha)
        context = {"publications": {commit.sha: published}}
        data = {**shapes.ListedCommitSerializer(commit, context=context).data, "branch": branch}
        response = Response(data, status=201)
        response["ETag"] = quote_tag(commit.sha)
        response["Location"] = f"/api/v1/repositories/{repository.name}/commits/{commit.sha}"
        return response


def _change(fields: Mapping[str, Any]) -> services.Change:
    content: bytes | None = None
    if fields["delete"] and fields.keys() & {"content", "content_base64", "move_to"}:
        message = f"{fields['path']}: delete it, or give it content or another path; not both."
        raise InvalidInput(message, code="bad_change", errors={"changes": [message]})
    if "content" in fields and "content_base64" in fields:
        message = f"{fields['path']}: send content or content_base64, not both."
        raise InvalidInput(message, code="bad_change", errors={"changes": [message]})
    if "content" in fields:
        try:
            content = fields["content"].encode()
        except UnicodeEncodeError as error:
            message = f"{fields['path']}: the content is not valid Unicode."
            raise InvalidInput(message, code="bad_change", errors={"changes": [message]}) from error
    elif "content_base64" in fields:
        try:
            content = base64.b64decode(fields["content_base64"], validate=True)
        except ValueError as error:
            message = f"{fields['path']}: content_base64 is not base64."
            raise InvalidInput(message, code="bad_change", errors={"changes": [message]}) from error
    return services.Change(path=fields["path"], content=content, delete=fields["delete"], move_to=fields.get("move_to"))


class CommitView(RepositoryEndpoint):
    """One commit."""

    @extend_schema(
        parameters=[OpenApiParameter("branch", str, description="prefer what came of publishing it on this branch")],
        responses=shapes.CommitDetailSerializer,
    )
    def get(self, request: Request, repo: str, sha: str) -> Response:
        """Describe it with its changes against its first parent, and what came of publishing it."""
        repository = self.find(repo)
        commit = queries.get_commit(repository, sha)
        branch = request.query_params.get("branch", "")
        published = queries.publications_of_commits(repository, [commit.sha], branch=branch)
        files = queries.diff_commit(repository, commit.sha)
        self.note_code(repository)
        return Response(
            {
                **shapes.ListedCommitSerializer(commit, context={"publications": published}).data,
                "files": shapes.FileDiffSerializer(files, many=True).data,
            }
        )


class StatusesView(RepositoryEndpoint):
    """What programs say of a commit."""

    @extend_schema(operation_id="listStatuses", responses=shapes.StatusSerializer(many=True))
    def get(self, request: Request, repo: str, sha: str) -> Response:
        """List the newest of each name and dataset."""
        repository = self.find(repo)
        statuses = queries.list_statuses(repository, queries.get_commit(repository, sha).sha)
        return Response(paginate(request._request, statuses, shapes.StatusSerializer))

    @extend_schema(
        operation_id="reportStatus",
        request=shapes.StatusSerializer,
        responses={201: shapes.StatusSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str, sha: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Say what a check found; it replaces what the same check said of the commit, or of the dataset, before."""
        status = services.report_status(
            repository=self.find(repo), sha=sha, by=self.principal, **read_input(shapes.StatusSerializer, self.body)
        )
        return Response(shapes.StatusSerializer(status).data, status=201)


class ContentsView(RepositoryEndpoint):
    """A file or a folder at a ref."""

    pagination_class = None
    """A folder is answered whole, as Git keeps it."""

    @extend_schema(parameters=[REF, IF_NONE_MATCH], responses=CONTENTS)
    def get(self, request: Request, repo: str, path: str = "") -> Response:
        """Return a file with its content, or the list of a folder's entries."""
        repository = self.find(repo)
        commit = queries.get_commit(repository, request.query_params.get("ref") or repository.default_branch)
        path = path.strip("/")
        if queries.find_kind(repository, commit.sha, path) == "folder":
            entries = queries.list_entries(repository, commit.sha, path)
            self.note_code(repository)
            return answer_tagged(request, f"{commit.sha}:{path}", shapes.EntrySerializer(entries, many=True).data)
        if submodule := queries.find_submodule(repository, commit.sha, path):
            self.note_code(repository)
            data = {"type": "submodule", "path": path, "sha": submodule, "commit": commit.sha, "size": 0}
            return answer_tagged(request, f"{commit.sha}:{submodule}", {**data, "encoding": "base64", "content": ""})
        blob = queries.read_blob(repository, commit.sha, path)
        self.note_code(repository)
        data = {
            "type": blob.kind,
            "path": path,
            "sha": blob.sha,
            "commit": commit.sha,
            "size": blob.size,
            "encoding": "base64",
            "content": base64.b64encode(blob.content).decode(),
        }
        return answer_tagged(request, f"{commit.sha}:{blob.sha}", data)


class RootContentsView(ContentsView):
    """The folder at the top of a ref."""

    @extend_schema(
        operation_id="repositories_contents_root",
        parameters=[REF, IF_NONE_MATCH],
        responses=shapes.EntrySerializer(many=True),
    )
    def get(self, request: Request, repo: str, path: str = "") -> Response:
        """List the entries at the top."""
        answer: Response = super().get(request, repo, path)
        return answer


class CompareView(RepositoryEndpoint):
    """Two refs side by side."""

    @extend_schema(
        parameters=[OpenApiParameter("base", str), OpenApiParameter("head", str, required=True)],
        responses=shapes.ComparisonSerializer,
    )
    def get(self, request: Request, repo: str) -> Response:
        """Say what head changed since it left base: commits and files with hunks."""
        repository = self.find(repo)
        base = request.query_params.get("base") or repository.default_branch
        head = request.query_params.get("head", "")
        if not head:
            message = "Say which head to compare: ?base=&head=."
            raise BadRequest(message, code="missing_head")
        overview = queries.compare_overview(repository, base, head)
        files = queries.compare(repository, overview.base_sha, overview.head_sha)
        self.note_code(repository)
        return Response(
            {
                "base": base,
                "head": head,
                "base_sha": overview.base_sha,
                "head_sha": overview.head_sha,
                "merge_base": overview.merge_base,
                "ahead": overview.ahead,
                "behind": overview.behind,
                "commits": shapes.CommitSerializer(overview.commits, many=True).data,
                "files": shapes.FileDiffSerializer(files, many=True).data,
            }
        )


class MembersView(RepositoryEndpoint):
    """Who has which role."""

    @extend_schema(responses=shapes.MemberSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List members by name."""
        members = queries.list_members(self.principal, self.find(repo))
        tag = _members_tag(members)
        return answer_tagged(request, tag, paginate(request._request, members, shapes.MemberSerializer))

    @extend_schema(
        parameters=[IF_MATCH], request=shapes.NewMemberSerializer, responses={201: shapes.NewMemberSerializer}
    )
    def post(self, request: Request, repo: str) -> Response:
        """Give a role, or change it; maintainers only."""
        repository = self.find(repo)
        if "If-Match" in request.headers:
            check_unchanged(request, _members_tag(queries.list_members(self.principal, repository)))
        fields = read_input(shapes.NewMemberSerializer, self.body)
        services.set_member(repository=repository, username=fields["user"], role=fields["role"], by=self.principal)
        return Response(fields, status=201)


class MemberView(RepositoryEndpoint):
    """One member."""

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, repo: str, username: str) -> Response:
        """Take the role away, at once; maintainers only."""
        if "If-Match" in request.headers:
            check_unchanged(request, _members_tag(queries.list_members(self.principal, self.find(repo))))
        services.remove_member(repository=self.find(repo), username=username, by=self.principal)
        return Response(status=204)


class ProtectionsView(RepositoryEndpoint):
    """What it takes to move which branch."""

    @extend_schema(responses=shapes.ProtectionSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List protections by branch."""
        protections = queries.list_protections(self.find(repo))
        tag = _protection_tag(*protections)
        return answer_tagged(
            request,
            tag,
            paginate(
                request._request, protections, shapes.ProtectionSerializer, key=lambda protection: (protection.branch,)
            ),
        )

    @extend_schema(
        parameters=[IF_MATCH], request=shapes.ProtectionSerializer, responses={201: shapes.ProtectionSerializer}
    )
    def post(self, request: Request, repo: str) -> Response:
        """Protect a branch, or replace its protection; maintainers only."""
        repository = self.find(repo)
        if "If-Match" in request.headers:
            check_unchanged(request, _protection_tag(*queries.list_protections(repository)))
        fields = read_input(shapes.ProtectionSerializer, self.body)
        return Response(
            _protection(services.set_protection(repository=repository, **fields, by=self.principal)), status=201
        )


class ProtectionView(RepositoryEndpoint):
    """One protection."""

    @extend_schema(parameters=[IF_NONE_MATCH], responses=shapes.ProtectionSerializer)
    def get(self, request: Request, repo: str, branch: str) -> Response:
        """Describe it."""
        protection = queries.get_protection(self.find(repo), branch)
        return answer_tagged(request, _protection_tag(protection), _protection(protection))

    @extend_schema(parameters=[IF_MATCH], request=shapes.ProtectionSerializer, responses=shapes.ProtectionSerializer)
    def patch(self, request: Request, repo: str, branch: str) -> Response:
        """Change some of it; maintainers only."""
        repository = self.find(repo)
        protection = queries.get_protection(repository, branch)
        check_unchanged(request, _protection_tag(protection))
        fields = read_input(shapes.ProtectionSerializer, {**_protection(protection), **self.body})
        if fields["branch"] != protection.branch:
            message = "A protection keeps its branch. Protect the other branch instead."
            raise InvalidInput(message, code="branch_is_fixed", errors={"branch": [message]})
        changed = services.set_protection(repository=repository, **fields, by=self.principal)
        return answer_tagged(request, _protection_tag(changed), _protection(changed))

    @extend_schema(parameters=[IF_MATCH], responses={204: None})
    def delete(self, request: Request, repo: str, branch: str) -> Response:
        """Let writers move the branch again; maintainers only."""
        check_unchanged(request, _protection_tag(queries.get_protection(self.find(repo), branch)))
        services.remove_protection(repository=self.find(repo), branch=branch, by=self.principal)
        return Response(status=204)


class WebhooksView(RepositoryEndpoint):
    """Addresses that receive a repository's events."""

    @extend_schema(responses=shapes.WebhookSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List webhooks; maintainers only."""
        webhooks = queries.list_webhooks(self.principal, self.find(repo))
        return Response(paginate(request._request, webhooks, shapes.WebhookSerializer))

    @extend_schema(request=shapes.NewWebhookSerializer, responses={201: shapes.WebhookSerializer})
    def post(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Send events to an address from now on; maintainers only."""
        repository = self.find(repo)
        fields = read_input(shapes.NewWebhookSerializer, self.body)
        webhook = services.add_webhook(repository=repository, **fields, by=self.principal)
        return Response(shapes.WebhookSerializer(webhook).data, status=201)


class WebhookView(RepositoryEndpoint):
    """One webhook."""

    @extend_schema(responses=shapes.WebhookSerializer)
    def get(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Describe it; maintainers only."""
        return Response(shapes.WebhookSerializer(queries.get_webhook(self.principal, self.find(repo), number)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Remove it; maintainers only."""
        services.remove_webhook(webhook=queries.get_webhook(self.principal, self.find(repo), number), by=self.principal)
        return Response(status=204)


class DeliveriesView(RepositoryEndpoint):
    """The deliveries of a webhook."""

    @extend_schema(responses=shapes.DeliverySerializer(many=True))
    def get(self, request: Request, repo: str, number: int) -> Response:
        """List its deliveries of the last days, newest first; maintainers only."""
        deliveries = queries.get_webhook(self.principal, self.find(repo), number).deliveries.all()
        return Response(paginate(request._request, deliveries, shapes.DeliverySerializer))


def _protection(protection: Protection) -> dict[str, Any]:
    return dict(shapes.ProtectionSerializer(protection).data)


def _protection_tag(*protections: Protection) -> str:
    return make_tag(*(sorted(_protection(protection).items()) for protection in protections))


def _members_tag(members: QuerySet[RepositoryRole]) -> str:
    return make_tag(sorted(members.values_list("user__username", "role")))
