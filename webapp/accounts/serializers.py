"""Shapes of accounts in the REST API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from rest_framework import serializers

from webapp.accounts.models import AuditEntry, Token, User


class TokenSerializer(serializers.ModelSerializer[Token]):
    """A token without its secret."""

    class Meta:
        model = Token
        fields = ("id", "name", "scopes", "created_at", "expires_at", "last_used_at")


class NewTokenSerializer(serializers.Serializer[Token]):
    """What POST /tokens takes."""

    name = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class UserSerializer(serializers.ModelSerializer[User]):
    """A user; the password is only ever written."""

    is_admin = serializers.BooleanField(source="is_superuser", read_only=True)

    class Meta:
        model = User
        fields = ("id", "username", "password", "is_admin", "is_active")
        read_only_fields = ("id", "is_active")
        extra_kwargs = {"password": {"write_only": True}}


class GroupSerializer(serializers.ModelSerializer[Group]):
    """A group with the names of its users."""

    users: Any = serializers.SlugRelatedField(source="user_set", slug_field="username", many=True, read_only=True)

    class Meta:
        model = Group
        fields = ("id", "name", "users")


class AuditEntrySerializer(serializers.ModelSerializer[AuditEntry]):
    """One entry of the audit log."""

    class Meta:
        model = AuditEntry
        fields = ("id", "at", "actor", "verb", "object", "outcome", "detail")
