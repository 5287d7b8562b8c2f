"""Tokens, users, groups and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from webapp.accounts import permissions, queries, services
from webapp.accounts.serializers import (
    AuditEntrySerializer,
    AuditFilterSerializer,
    GroupSerializer,
    MadeTokenSerializer,
    NewGroupSerializer,
    NewTokenSerializer,
    NewUserSerializer,
    PasswordSerializer,
    ProfileSerializer,
    SessionSerializer,
    TokenSerializer,
    UserChangesSerializer,
    UserSerializer,
    read_audit_filter,
)
from webapp.core.api import ApiView
from webapp.core.basic_auth import is_basic, read_basic
from webapp.core.errors import InvalidInput, Unauthenticated
from webapp.core.inputs import read_input
from webapp.core.moments import read_moment
from webapp.core.openapi import refusals
from webapp.core.pagination import paginate
from webapp.core.principals import Principal

AUDIT_MEDIA = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
PASSWORD_OR_SESSION: list[Any] = [{"password": []}, {"session": []}]


class PasswordEndpoint(ApiView):
    """An endpoint for people themselves: it takes a session or basic authentication, and for changes no token."""

    def identify(self, request: HttpRequest) -> None:
        """Accept user name and password as well."""
        header = request.headers.get("Authorization", "")
        if is_basic(header):
            request.principal = _authenticate_basic(request, header)  # type: ignore[attr-defined]
            request.principal_by_session = False  # type: ignore[attr-defined]

    def refuse_token(self, message: str) -> None:
        """Refuse a caller who shows a token."""
        if self.request.headers.get("Authorization", "").lower().startswith("bearer "):
            raise Unauthenticated(message, code="token_by_token")


class TokensView(PasswordEndpoint):
    """The caller's own tokens. Making one takes a session or basic authentication, not another token."""

    answers_secret = True

    @extend_schema(
        auth=[{"token": []}, *PASSWORD_OR_SESSION], responses={200: TokenSerializer(many=True), **refusals(429)}
    )
    def get(self, request: Request) -> Response:
        """List the caller's tokens."""
        tokens = queries.list_tokens(user_id=self.principal.user_id)
        return Response(paginate(request, tokens, TokenSerializer))

    @extend_schema(
        auth=PASSWORD_OR_SESSION,
        request=NewTokenSerializer,
        responses={201: MadeTokenSerializer, **refusals(429)},
    )
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a token; its secret is in this answer and never again."""
        self.refuse_token("A token cannot make tokens: use your password or sign in.")
        fields = read_input(NewTokenSerializer, self.body)
        token, secret = services.create_token(
            user=queries.get_user(self.principal.username),
            name=fields["name"],
            scopes=fields["scopes"],
            expires_at=_read_time(fields["expires_at"]),
        )
        return Response(
            {
                "id": token.pk,
                "token": secret,
                "name": token.name,
                "scopes": token.scopes,
                "expires_at": token.expires_at,
            },
            status=201,
        )


def _authenticate_basic(request: HttpRequest, header: str) -> Principal:
    credentials = read_basic(header)
    if credentials is None:
        raise Unauthenticated("The basic authentication header cannot be read.")
    username, password = credentials
    user = services.check_sign_in(request, username=username, password=password)
    if user is None:
        raise Unauthenticated("User name or password is wrong.", code="wrong_password")
    return queries.principal_for_user(user)


def _read_time(value: str | None) -> datetime | None:
    if value is None:
        return None
    moment = read_moment(value)
    if moment is None:
        raise InvalidInput(
            "expires_at is a time with its zone.", errors={"expires_at": ["For example 2030-01-31T12:00:00Z."]}
        )
    return moment


class TokenView(ApiView):
    """One token."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """Revoke it, at once: one's own, or as an admin anybody's."""
        # Tokens are settings: one that was made for writing data ends no other.
        permissions.check_scope(self.principal, "maintain")
        services.revoke_token_of(token_id=token_id, by=self.principal)
        return Response(status=204)


class ProfileView(ApiView):
    """The caller's own account."""

    @extend_schema(responses=ProfileSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Return names, groups, and who the caller is at the sign-in provider; GET /repositories has the roles."""
        return Response(ProfileSerializer(queries.get_signed_in_user(self.principal)).data)


class SessionsView(ApiView):
    """The caller's own sessions."""

    @extend_schema(responses=SessionSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List sessions that have not ended, the last one used first."""
        sessions = queries.list_sessions(user_id=self.principal.user_id)
        asking = {"session_key": request.session.session_key}
        return Response(paginate(request, sessions, SessionSerializer, look_up=lambda _sessions: asking))

    @extend_schema(operation_id="endOtherSessions", responses={204: None})
    def delete(self, request: Request) -> Response:
        """End all sessions, at once, but the one that asks."""
        permissions.check_scope(self.principal, "maintain")
        is_session = request._request.principal_by_session  # type: ignore[attr-defined]
        session_key = (request.session.session_key or "") if is_session else ""
        user = services.end_other_sessions(session_key=session_key, by=self.principal)
        if session_key:
            services.continue_session(request._request, user=user)
        return Response(status=204)


class SessionView(ApiView):
    """One session."""

    @extend_schema(operation_id="endSession", responses={204: None})
    def delete(self, request: Request, session_id: int) -> Response:  # noqa: ARG002 - DRF's signature
        """End one of one's own sessions, at once, and what streams to it."""
        permissions.check_scope(self.principal, "maintain")
        services.end_session(session_id=session_id, by=self.principal)
        return Response(status=204)


class UsersView(ApiView):
    """Users. Admins see and make all; others see names, to ask for reviews."""

    @extend_schema(responses=UserSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List users."""
        users = queries.list_users(with_inactive=self.principal.is_admin)
        return Response(paginate(request, users, UserSerializer))

    @extend_schema(request=NewUserSerializer, responses={201: UserSerializer})
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a user; admins only."""
        permissions.check_admin(self.principal)
        user = services.create_user(**read_input(NewUserSerializer, self.body), by=self.principal)
        return Response(UserSerializer(user).data, status=201)


class UserView(ApiView):
    """One user, for admins."""

    @extend_schema(request=UserChangesSerializer, responses=UserSerializer)
    def patch(self, request: Request, username: str) -> Response:  # noqa: ARG002 - DRF's signature
        """Give another password, deactivate or activate; deactivation ends sessions, tokens and streams at once."""
        permissions.check_admin(self.principal)
        changes = read_input(UserChangesSerializer, self.body)
        user = queries.get_user(username)
        with transaction.atomic():
            if "password" in changes:
                services.set_password(user=user, password=changes["password"], by=self.principal)
            if "is_active" in changes:
                services.set_active(user=user, is_active=changes["is_active"], by=self.principal)
        return Response(UserSerializer(user).data)


class UserTokensView(ApiView):
    """The tokens of one user, for admins."""

    @extend_schema(operation_id="listUserTokens", responses=TokenSerializer(many=True))
    def get(self, request: Request, username: str) -> Response:
        """List tokens that were not revoked; DELETE /tokens/{id} ends one."""
        permissions.check_admin(self.principal)
        tokens = queries.list_tokens(user_id=queries.get_user(username).pk)
        return Response(paginate(request, tokens, TokenSerializer))


class PasswordView(PasswordEndpoint):
    """The caller's own password."""

    @extend_schema(
        operation_id="changePassword",
        auth=PASSWORD_OR_SESSION,
        request=PasswordSerializer,
        responses={204: None, **refusals(429)},
    )
    def post(self, request: Request) -> Response:
        """Change it, which ends the caller's sessions; the present one is asked for again."""
        self.refuse_token("A token cannot change a password: use the password or sign in.")
        fields = read_input(PasswordSerializer, self.body)
        user = services.check_sign_in(
            request._request, username=self.principal.username, password=fields["current_password"]
        )
        if user is None:
            message = "The current password is wrong."
            raise InvalidInput(message, code="wrong_password", errors={"current_password": [message]})
        services.set_password(user=user, password=fields["password"], by=self.principal)
        return Response(status=204)


class GroupsView(ApiView):
    """Groups of users, which protections can name."""

    @extend_schema(responses=GroupSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List groups."""
        return Response(paginate(request, queries.list_groups(), GroupSerializer))

    @extend_schema(request=NewGroupSerializer, responses={201: GroupSerializer})
    def post(self, request: Request) -> Response:  # noqa: ARG002 - DRF's signature
        """Make a group, or set its members; admins only."""
        permissions.check_admin(self.principal)
        fields = read_input(NewGroupSerializer, self.body)
        group = services.set_group(
            name=fields["name"], usernames=fields["users"], by=self.principal, provided=fields["provided"]
        )
        return Response(GroupSerializer(group).data, status=201)


class AuditView(ApiView):
    """The audit log; admins only."""

    @extend_schema(parameters=[AuditFilterSerializer], responses=AuditEntrySerializer(many=True))
    def get(self, request: Request) -> Response:
        """List entries, newest first."""
        entries = _list_wanted(self, request)
        return Response(paginate(request, entries, AuditEntrySerializer))


class AuditExportView(ApiView):
    """The audit log as a file; admins only."""

    kind = "csv"
    pagination_class = None

    def get(self, request: Request) -> StreamingHttpResponse:
        """Write out the entries, newest first."""
        entries = _list_wanted(self, request)
        services.record_audit(by=self.principal, verb="export_audit", object="audit", detail=dict(request.GET.items()))
        export = queries.export_csv if self.kind == "csv" else queries.export_jsonl
        response = StreamingHttpResponse(export(entries), content_type=AUDIT_MEDIA[self.kind])
        response["Content-Disposition"] = f'attachment; filename="audit.{self.kind}"'
        return response


@extend_schema_view(
    get=extend_schema(
        operation_id="auditCsv", parameters=[AuditFilterSerializer], responses={(200, "text/csv"): OpenApiTypes.STR}
    )
)
class AuditCsvView(AuditExportView):
    """The audit log as CSV, without formulas."""


@extend_schema_view(
    get=extend_schema(
        operation_id="auditJsonl",
        parameters=[AuditFilterSerializer],
        responses={(200, "application/jsonl"): OpenApiTypes.STR},
    )
)
class AuditJsonlView(AuditExportView):
    """The audit log as lines of JSON."""

    kind = "jsonl"


def _list_wanted(view: ApiView, request: Request) -> QuerySet[Any]:
    permissions.check_admin(view.principal)
    return queries.list_audit(read_audit_filter(request.GET.dict()))
