"""Shapes of accounts in the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group
from rest_framework import serializers

from webapp.accounts.models import AuditEntry, ProviderIdentity, Token, User, UserSession
from webapp.accounts.queries import AuditFilter, list_group_names
from webapp.accounts.rules.audit import FIELDS, OUTCOMES
from webapp.accounts.rules.scopes import SCOPES
from webapp.core.inputs import Flag, Text, read_input


class TokenSerializer(serializers.ModelSerializer[Token]):
    """A token without its secret."""

    class Meta:
        model = Token
        fields = ("id", "name", "scopes", "created_at", "expires_at", "last_used_at")


class SessionSerializer(serializers.ModelSerializer[UserSession]):
    """A session of the caller, without its secret."""

    device = serializers.CharField(read_only=True)
    is_current = serializers.SerializerMethodField(help_text="whether it is the one that asks")

    class Meta:
        model = UserSession
        fields = ("id", "device", "address", "began_at", "seen_at", "is_current")

    def get_is_current(self, session: UserSession) -> bool:
        """Compare it with the session that asks; a token is none."""
        return session.session_key == self.context.get("session_key")


class ProviderIdentitySerializer(serializers.ModelSerializer[ProviderIdentity]):
    """Who somebody is at the sign-in provider."""

    class Meta:
        model = ProviderIdentity
        fields = ("issuer", "subject", "linked_at")


class ProfileSerializer(serializers.ModelSerializer[User]):
    """The caller's own account."""

    name = serializers.CharField(source="get_full_name", read_only=True)
    email = serializers.CharField(read_only=True)
    is_admin = serializers.BooleanField(source="is_superuser", read_only=True)
    groups = serializers.SerializerMethodField()
    provider = ProviderIdentitySerializer(source="provider_identity", allow_null=True, default=None, read_only=True)

    class Meta:
        model = User
        fields = ("username", "name", "email", "is_admin", "groups", "provider")

    def get_groups(self, user: User) -> list[str]:
        """Return their names."""
        return list_group_names(user_id=user.pk)


class NewTokenSerializer(serializers.Serializer[Any]):
    """What POST /tokens takes, and nothing else: `scope` for `scopes` would make a token that may do everything."""

    name = Text(max_length=100)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=SCOPES),
        required=False,
        default=list,
        help_text="none: all",
    )
    expires_at = serializers.CharField(required=False, allow_null=True, default=None, help_text="a time with its zone")


class MadeTokenSerializer(serializers.Serializer[Token]):
    """A new token with its secret, which is shown this once."""

    id = serializers.IntegerField()
    token = serializers.CharField()
    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField())
    expires_at = serializers.DateTimeField(allow_null=True)


class NewUserSerializer(serializers.Serializer[User]):
    """What POST /users takes."""

    username = Text(max_length=150, trim_whitespace=False)
    password = Text(trim_whitespace=False, max_length=1000)


class UserChangesSerializer(serializers.Serializer[User]):
    """What PATCH /users/{username} takes."""

    password = Text(required=False, trim_whitespace=False, max_length=1000)
    is_active = Flag(required=False)


class PasswordSerializer(serializers.Serializer[User]):
    """What POST /password takes."""

    current_password = Text(trim_whitespace=False, max_length=1000)
    password = Text(trim_whitespace=False, max_length=1000)


class NewGroupSerializer(serializers.Serializer[Group]):
    """What POST /groups takes: a new group, or who is in one."""

    name = Text(max_length=150, trim_whitespace=False)
    users = serializers.ListField(child=Text(), required=False, default=list)
    provided = Flag(
        required=False,
        allow_null=True,
        default=None,
        help_text="whether the sign-in provider's group of this name counts as this group; left out: as it is",
    )


class UserSerializer(serializers.ModelSerializer[User]):
    """A user, without the password."""

    is_admin = serializers.BooleanField(source="is_superuser", read_only=True)

    class Meta:
        model = User
        fields = ("id", "username", "is_admin", "is_active")


class GroupSerializer(serializers.ModelSerializer[Group]):
    """A group with the names of its users."""

    users = serializers.SerializerMethodField()
    provided = serializers.SerializerMethodField(
        help_text="whether the sign-in provider's group of this name counts as this group"
    )

    class Meta:
        model = Group
        fields = ("id", "name", "users", "provided")

    def get_provided(self, group: Group) -> bool:
        """Return whether it is linked."""
        return hasattr(group, "provided")

    def get_users(self, group: Group) -> list[str]:
        """Return the names."""
        return [user.username for user in group.user_set.all()]


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    """One entry of the audit log; reads of rows and refusals are counted by the minute, those of code and logs by the hour."""

    job = serializers.CharField(source="job_id", read_only=True)
    detail = serializers.DictField(read_only=True)

    class Meta:
        model = AuditEntry
        fields = FIELDS


class AuditFilterSerializer(serializers.Serializer[AuditFilter]):
    """Which entries of the audit log are wanted; none of these: all."""

    actor = Text(required=False, default="", allow_blank=True, max_length=150)
    verb = Text(required=False, default="", allow_blank=True, max_length=60)
    object = Text(required=False, default="", allow_blank=True, max_length=400, help_text="what the object begins with")
    branch = Text(required=False, default="", allow_blank=True, max_length=200)
    outcome = serializers.ChoiceField(required=False, default="", allow_blank=True, choices=OUTCOMES)
    since = serializers.DateTimeField(required=False, allow_null=True, default=None)
    until = serializers.DateTimeField(required=False, allow_null=True, default=None, help_text="before this time")


def read_audit_filter(parameters: Mapping[str, str]) -> AuditFilter:
    """Read which entries an address asks for; it can have other parameters too."""
    fields = AuditFilterSerializer().get_fields()
    filters = {name: value for name, value in parameters.items() if name in fields}
    return AuditFilter(**read_input(AuditFilterSerializer, filters))
