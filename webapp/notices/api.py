"""REST endpoints of notifications."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.core.api import ApiView
from webapp.core.inputs import read_input
from webapp.core.openapi import describe_filters
from webapp.core.pagination import paginate
from webapp.core.preconditions import IF_MATCH, answer_tagged, check_unchanged, make_tag
from webapp.datasets import queries as datasets
from webapp.notices import serializers, services
from webapp.notices.queries.inbox import InboxFilter, list_notifications
from webapp.notices.queries.wishes import is_watching, read_wishes
from webapp.repositories import queries as repositories


class NotificationsView(ApiView):
    """GET `/notifications`."""

    @extend_schema(
        operation_id="listNotifications",
        parameters=describe_filters(InboxFilter),
        responses=serializers.NotificationSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List what you are told, newest first; `all` is all but what is done."""
        rows = list_notifications(self.principal, InboxFilter.read_api(request.GET))
        return Response(paginate(request._request, rows, serializers.NotificationSerializer))


class MarkView(ApiView):
    """POST `/notifications/mark`."""

    @extend_schema(
        operation_id="markNotifications",
        request=serializers.MarkSerializer,
        responses={200: serializers.MarkedSerializer},
    )
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Mark some of your notifications, or all that are unread, as unread, read or done."""
        fields = read_input(serializers.MarkSerializer, self.body)
        count = services.mark_notifications(by=self.principal, state=fields["state"], numbers=fields.get("ids"))
        return Response({"count": count})


class SettingsView(ApiView):
    """GET and PATCH `/notifications/settings`."""

    @extend_schema(operation_id="getNotificationSettings", responses=serializers.WishesSerializer)
    def get(self, request: Request) -> Response:
        """Return where you are told what."""
        return self._answer(request)

    @extend_schema(
        operation_id="updateNotificationSettings",
        parameters=[IF_MATCH],
        request=serializers.WishesChangeSerializer,
        responses=serializers.WishesSerializer,
    )
    def patch(self, request: Request) -> Response:
        """Change where you are told what."""
        check_unchanged(request, make_tag(self._describe()))
        fields = read_input(serializers.WishesChangeSerializer, self.body)
        services.set_wishes(by=self.principal, channels=fields.get("channels", {}), address=fields.get("address"))
        return self._answer(request)

    def _describe(self) -> Any:
        return serializers.WishesSerializer(read_wishes(self.principal)).data

    def _answer(self, request: Request) -> Response:
        described = self._describe()
        return answer_tagged(request, make_tag(described), described)


class RepositoryWatchView(ApiView):
    """GET, PUT and DELETE `/repositories/{repo}/watch`."""

    takes_body = False

    @extend_schema(operation_id="getRepositoryWatch", responses=serializers.WatchSerializer)
    def get(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Return whether you watch a repository."""
        repository = repositories.get_repository(self.principal, repo)
        return Response({"watching": is_watching(self.principal, repository=repository)})

    @extend_schema(operation_id="watchRepository", request=None, responses=serializers.WatchSerializer)
    def put(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Watch a repository."""
        services.watch_repository(repository=repositories.get_repository(self.principal, repo), by=self.principal)
        return Response({"watching": True})

    @extend_schema(operation_id="unwatchRepository", responses={204: None})
    def delete(self, request: Request, repo: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Watch a repository no more."""
        repository = repositories.get_repository(self.principal, repo)
        services.watch_repository(repository=repository, by=self.principal, is_watched=False)
        return Response(status=204)


class DatasetWatchView(ApiView):
    """GET, PUT and DELETE `/datasets/{id}/watch`."""

    takes_body = False

    @extend_schema(operation_id="getDatasetWatch", responses=serializers.WatchSerializer)
    def get(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Return whether you watch a dataset."""
        dataset = datasets.get_dataset(self.principal, dataset_id)
        return Response({"watching": is_watching(self.principal, dataset=dataset)})

    @extend_schema(operation_id="watchDataset", request=None, responses=serializers.WatchSerializer)
    def put(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Watch a dataset."""
        services.watch_dataset(dataset=datasets.get_dataset(self.principal, dataset_id), by=self.principal)
        return Response({"watching": True})

    @extend_schema(operation_id="unwatchDataset", responses={204: None})
    def delete(self, request: Request, dataset_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Watch a dataset no more."""
        dataset = datasets.get_dataset(self.principal, dataset_id)
        services.watch_dataset(dataset=dataset, by=self.principal, is_watched=False)
        return Response(status=204)
