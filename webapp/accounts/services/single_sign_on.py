"""Accounts of people for whom a sign-in provider vouches: found by issuer and subject, made at the first sign-in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from webapp.accounts.models import ProvidedGroup, ProvidedMembership, ProviderIdentity, User
from webapp.accounts.permissions import may_use_password
from webapp.accounts.rules.audit import REFUSED
from webapp.accounts.rules.claims import make_username
from webapp.accounts.services.audit import record_audit
from webapp.core.errors import Conflict, NotFound, PermissionDenied

if TYPE_CHECKING:
    from webapp.accounts.rules.claims import Profile
    from webapp.core.principals import Principal

TRIES = 3
"""Somebody else may take the same user name at the same moment."""


def enter_by_provider(profile: Profile) -> User:
    """Return the account of whom a provider vouches for, made where there is none, with the groups that it names.

    Raises:
        PermissionDenied: the account is deactivated.
        Conflict: too many people of the same name begin at the same moment.

    """
    for _ in range(TRIES):
        try:
            with transaction.atomic():
                identity = _find_identity(profile) or _make_account(profile)
                if identity.user.is_active:
                    _take_over(identity, profile)
        except IntegrityError:
            continue
        _check_active(identity)
        return identity.user
    message = "Somebody of the same name signs in for the first time right now. Try again."
    raise Conflict(message, code="username_taken")


def link_identity(profile: Profile, *, by: Principal) -> None:
    """Let somebody who is signed in also sign in by the provider from now on, with the groups that it names.

    Raises:
        Conflict: whom the provider vouches for has an account, or this one is somebody else's there.

    """
    user = User.objects.get(pk=by.user_id)
    with transaction.atomic():
        identity = _find_identity(profile)
        if identity is None and not ProviderIdentity.objects.filter(user=user).exists():
            identity = ProviderIdentity.objects.create(user=user, issuer=profile.issuer, subject=profile.subject)
            record_audit(by=by, verb="link_identity", object=user.username, detail=_describe(profile))
        if identity is None or identity.user_id != user.pk:
            message = f"{user.username} or {profile.subject} is linked to somebody else already. Unlink that first."
            raise Conflict(message, code="identity_taken")
        identity.user = user
        _take_over(identity, profile)


def unlink_identity(*, by: Principal) -> None:
    """Leave somebody with their password alone, and without what the provider gave them.

    Raises:
        Conflict: they could not sign in any more.
        NotFound: they are not linked.

    """
    identity = ProviderIdentity.objects.select_related("user").filter(user_id=by.user_id).first()
    if identity is None:
        raise NotFound("Your account is not linked to a sign-in provider.")
    user = identity.user
    if not may_use_password(user) or (identity.is_admin and settings.TRIBUTARY_OIDC_ONLY):
        raise Conflict("You could not sign in any more: ask an admin for a password first.", code="last_way_in")
    with transaction.atomic():
        _set_groups(user, ())
        _set_admin(user, is_named=False, is_given=identity.is_admin)
        user.save(update_fields=["is_superuser"])
        identity.delete()
        record_audit(by=by, verb="unlink_identity", object=user.username, detail=_describe(identity))


def _find_identity(profile: Profile) -> ProviderIdentity | None:
    identities = ProviderIdentity.objects.select_for_update(of=("self",)).select_related("user")
    return identities.filter(issuer=profile.issuer, subject=profile.subject).first()


def _make_account(profile: Profile) -> ProviderIdentity:
    names = User.objects.filter(username__istartswith=profile.username).values_list("username", flat=True)
    user = User(
        username=make_username(profile.username, taken={name.casefold() for name in names}),
        first_name=profile.first_name,
        last_name=profile.last_name,
    )
    user.set_unusable_password()
    user.save()
    record_audit(by=None, verb="create_user", object=user.username, detail=_describe(profile))
    return ProviderIdentity.objects.create(user=user, issuer=profile.issuer, subject=profile.subject)


def _describe(identity: Profile | ProviderIdentity) -> dict[str, str]:
    return {"issuer": identity.issuer, "subject": identity.subject}


def _check_active(identity: ProviderIdentity) -> None:
    user = identity.user
    if not user.is_active:
        detail = _describe(identity)
        record_audit(by=None, verb="sign_in", object=user.username, outcome=REFUSED, detail=detail)
        raise PermissionDenied(f"The account {user.username} is deactivated. Ask an admin.", code="user_inactive")


def _take_over(identity: ProviderIdentity, profile: Profile) -> None:
    """Give the account what the provider says: address, groups, whether they are an admin."""
    user = identity.user
    _set_email(user, profile.email, before=identity.email)
    _set_groups(user, profile.groups)
    is_given = _set_admin(user, is_named=profile.is_admin, is_given=identity.is_admin)
    user.save(update_fields=["email", "is_superuser"])
    identity.email, identity.is_admin = profile.email, is_given
    identity.save(update_fields=["email", "is_admin"])


def _set_email(user: User, email: str, *, before: str) -> None:
    """Follow the provider's address, unless the account has one of its own or another account has this one."""
    is_own = user.email not in ("", before)
    if not is_own and not (email and User.objects.filter(email__iexact=email).exclude(pk=user.pk).exists()):
        user.email = email


def _set_groups(user: User, names: tuple[str, ...]) -> None:
    """Put the user into the groups that the provider names, and out of those into which it had put them.

    A local group of the same name is another group unless an administrator has linked it.
    """
    provided = {row.group.name: row for row in ProvidedMembership.objects.filter(user=user).select_related("group")}
    current = set(user.groups.values_list("name", flat=True))
    groups = {name: _find_provided_group(name) for name in names}
    # Who was taken out by hand comes in again: it is the provider that says who is in.
    added = {name: group for name, group in groups.items() if group is not None and name not in current}
    local = [name for name, group in groups.items() if group is None and name not in current]
    removed = [row for name, row in provided.items() if groups.get(name) is None]
    for group in added.values():
        user.groups.add(group)
        ProvidedMembership.objects.get_or_create(user=user, group=group)
    for row in removed:
        user.groups.remove(row.group)
        row.delete()
    if added or removed:
        detail = {"added": list(added), "removed": [row.group.name for row in removed]}
        record_audit(by=None, verb="set_groups", object=user.username, detail=detail)
    if local:
        detail = {"not_linked": local}
        record_audit(by=None, verb="set_groups", object=user.username, outcome=REFUSED, detail=detail)


def _find_provided_group(name: str) -> Group | None:
    """Find the group that a group of the provider counts as, made if nothing has its name; None if that is a local one."""
    group = Group.objects.filter(name__iexact=name).select_related("provided").first()
    if group is None:
        group = Group.objects.create(name=name)
        ProvidedGroup.objects.create(group=group)
        return group
    return group if group.name == name and hasattr(group, "provided") else None


def _set_admin(user: User, *, is_named: bool, is_given: bool) -> bool:
    """Make an admin of whom the provider names, and none of whom only it had named; return whether it is its word."""
    if is_named and not user.is_superuser:
        user.is_superuser = is_given = True
        record_audit(by=None, verb="grant_admin", object=user.username)
    elif is_given and not is_named:
        user.is_superuser = is_given = False
        record_audit(by=None, verb="revoke_admin", object=user.username)
    return is_given
