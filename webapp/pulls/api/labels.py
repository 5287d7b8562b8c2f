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
from webapp.pulls import serializers, services
from webapp.pulls.api.pulls import PullEndpoint
from webapp.pulls.queries import labels as queries
from webapp.pulls.rules.labels import PLAIN
from webapp.repositories import queries as repositories

if TYPE_CHECKING:
    from webapp.pulls.models import PullRequest


class LabelList(ApiView):
    """GET and POST `/repositories/{repo}/labels`."""

    @extend_schema(operation_id="listLabels", responses=serializers.LabelSerializer(many=True))
    def get(self, request: Request, repo: str) -> Response:
        """List the labels of a repository by name."""
        labels = queries.list_labels(repositories.get_repository(self.principal, repo))
        return Response(paginate(request._request, labels, serializers.LabelSerializer))

    @extend_schema(
        operation_id="setLabel",
        request=serializers.LabelSerializer,
        responses={201: serializers.LabelSerializer, **refusals(409)},
    )
    def post(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a label, or change the colour of the one of that name; writers only."""
        repository = repositories.get_repository(self.principal, repo)
        fields = read_input(serializers.LabelSerializer, self.body)
        label = services.set_label(repository=repository, by=self.principal, **{"tone": PLAIN, **fields})
        return Response(serializers.LabelSerializer(label).data, status=201)


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
        operation_id="labelPull", request=serializers.PullLabelsSerializer, responses=serializers.PullSerializer
    )
    def put(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Give a pull request exactly these labels."""
        pull: PullRequest = self.find(repo, number)
        services.label_pull(pull=pull, by=self.principal, **read_input(serializers.PullLabelsSerializer, self.body))
        return Response(serializers.PullSerializer(pull).data)


class PullAssignees(PullEndpoint):
    """PUT `…/assignees`."""

    @extend_schema(
        operation_id="assignPull", request=serializers.PullAssigneesSerializer, responses=serializers.PullSerializer
    )
    def put(self, request: Request, repo: str, number: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Say who sees to a pull request: exactly these people."""
        pull: PullRequest = self.find(repo, number)
        services.assign_pull(pull=pull, by=self.principal, **read_input(serializers.PullAssigneesSerializer, self.body))
        return Response(serializers.PullSerializer(pull).data)
