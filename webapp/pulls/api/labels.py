"""REST endpoints of labels, and of who sees to a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.core.api import ApiView
from webapp.core.inputs import read_input
from webapp.core.openapi import refusals
from webapp.core.pagination import paginate
from webapp.core.preconditions import IF_MATCH, answer_tagged, check_unchanged, make_tag
from webapp.pulls import serializers, services
from webapp.pulls.api.pulls import PullEndpoint
from webapp.pulls.queries import labels as queries
from webapp.pulls.rules.labels import PLAIN
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from webapp.pulls.models import Label, PullRequest


class LabelList(ApiView):
    """GET and POST `/repositories/{repo}/labels`."""

    @extend_schema(operation_id="listLabels", responses=serializers.LabelSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List the labels of a repository by name."""
        labels = queries.list_labels(repositories.get_repository(self.principal, repo))
        return answer_tagged(
            request, _labels_tag(labels), paginate(request._request, labels, serializers.LabelSerializer)
        )

    @extend_schema(
        operation_id="setLabel",
        parameters=[IF_MATCH],
        request=serializers.LabelSerializer,
        responses={201: serializers.LabelSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str) -> Response:
        """Make a label, or change the colour of the one of that name; writers only."""
        repository = repositories.get_repository(self.principal, repo)
        if "If-Match" in request.headers:
            check_unchanged(request, _labels_tag(queries.list_labels(repository)))
        fields = read_input(serializers.LabelSerializer, self.body)
        label = services.set_label(repository=repository, by=self.principal, **{"tone": PLAIN, **fields})
        return Response(serializers.LabelSerializer(label).data, status=201)


def _labels_tag(labels: QuerySet[Label]) -> str:
    return make_tag(sorted(labels.values_list("name", "tone")))


class LabelDetail(ApiView):
    """DELETE `/repositories/{repo}/labels/{label}`."""

    @extend_schema(operation_id="removeLabel", responses={204: None})
    def delete(self, request: Request, repo: str, label: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Take a label away, from all pull requests that have it; writers only."""
        row = queries.get_label(repositories.get_repository(self.principal, repo), label)
        services.remove_label(label=row, by=self.principal)
        return Response(status=204)


class PullLabels(PullEndpoint):
    """PUT `…/labels`."""

    @extend_schema(
        operation_id="labelPull",
        parameters=[IF_MATCH],
        request=serializers.PullLabelsSerializer,
        responses=serializers.PullSerializer,
    )
    def put(self, request: Request, repo: str, number: int) -> Response:
        """Give a pull request exactly these labels."""
        pull: PullRequest = self.find(repo, number)
        self.check_unchanged(request, pull)
        services.label_pull(pull=pull, by=self.principal, **read_input(serializers.PullLabelsSerializer, self.body))
        return Response(serializers.PullSerializer(pull).data)


class PullAssignees(PullEndpoint):
    """PUT `…/assignees`."""

    @extend_schema(
        operation_id="assignPull",
        parameters=[IF_MATCH],
        request=serializers.PullAssigneesSerializer,
        responses=serializers.PullSerializer,
    )
    def put(self, request: Request, repo: str, number: int) -> Response:
        """Say who sees to a pull request: exactly these people."""
        pull: PullRequest = self.find(repo, number)
        self.check_unchanged(request, pull)
        services.assign_pull(pull=pull, by=self.principal, **read_input(serializers.PullAssigneesSerializer, self.body))
        return Response(serializers.PullSerializer(pull).data)
