"""What an account takes over of a provider's claims, whatever these are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.accounts.models import User
from webapp.accounts.rules.claims import (
    MOST_GROUPS,
    RESERVED,
    InvalidClaims,
    Profile,
    is_protected,
    make_username,
    read_claims,
)

WHO = {"iss": "https://id.example", "sub": "248289761001"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=8), values, max_size=4),
    max_leaves=8,
)
NAMES = ("preferred_username", "email", "email_verified", "name", "nickname", "given_name", "family_name", "groups")


def read(claims: dict[str, Any], groups_claim: str = "groups", **more: Any) -> Profile:
    return read_claims({**WHO, **claims}, groups_claim=groups_claim, **more)


@given(claims=st.dictionaries(st.sampled_from(NAMES), JSON))
def test_any_claims_make_an_account_that_the_columns_hold(claims: dict[str, Any]) -> None:
    profile = read(claims)

    User.username_validator(profile.username)
    assert 0 < len(profile.username) <= 100
    assert len(profile.first_name) <= 150 >= len(profile.last_name)
    assert len(profile.email) <= 254
    assert not profile.email or claims["email_verified"] is True
    assert all(0 < len(name) <= 150 and name.isprintable() for name in profile.groups)
    assert not profile.is_admin


@given(proposal=st.sampled_from(["ines", "system", "Anonymous"]), taken=st.sets(st.integers(2, 9)))
def test_a_user_name_is_nobody_elses_and_no_word_of_the_audit_log(proposal: str, taken: set[int]) -> None:
    names = {proposal.casefold(), *(f"{proposal}-{number}".casefold() for number in taken)}

    name = make_username(proposal, taken=names)

    assert name.casefold() not in names | RESERVED
    assert name.startswith(proposal)
    assert make_username("olek", taken=names) == "olek"


@pytest.mark.parametrize(
    ("claims", "username"),
    [
        ({"preferred_username": "ines"}, "ines"),
        ({"preferred_username": "ines@example.org"}, "ines"),
        ({"preferred_username": "CORP\\ines"}, "CORP-ines"),
        ({"email": "ines@example.org", "email_verified": True}, "ines"),
        ({"email": "ines@example.org", "email_verified": "true", "name": "Inés Ruiz"}, "Inés-Ruiz"),
        ({"preferred_username": "@@", "nickname": "ini"}, "ini"),
        ({}, "user"),
    ],
)
def test_the_user_name_is_the_first_that_the_claims_offer(claims: dict[str, Any], username: str) -> None:
    assert read(claims).username == username


def test_names_are_taken_apart_where_the_provider_does_not() -> None:
    assert (read({"name": "Inés Ruiz Soto"}).first_name, read({"name": "Inés Ruiz Soto"}).last_name) == (
        "Inés",
        "Ruiz Soto",
    )
    assert read({"name": "x y", "given_name": "Inés"}).first_name == "Inés"


@pytest.mark.parametrize(
    ("name", "claims", "groups"),
    [
        ("groups", {"groups": ["stewards", "stewards", " owners "]}, ("stewards", "owners")),
        ("groups", {"groups": ["owners\n", "own\u200bers", "\u043ewners"]}, ()),
        ("groups", {"groups": "stewards"}, ("stewards",)),
        ("groups", {"groups": ["x" * 151, 7, None, ""]}, ()),
        ("groups", {"groups": {"stewards": True}}, ()),
        ("realm_access.roles", {"realm_access": {"roles": ["stewards"]}}, ("stewards",)),
        ("https://id.example/groups", {"https://id.example/groups": ["stewards"]}, ("stewards",)),
        ("roles.all", {"roles": ["stewards"]}, ()),
    ],
)
def test_groups_are_found_by_name_or_path(name: str, claims: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert read(claims, groups_claim=name).groups == groups


def test_only_named_groups_are_taken_over_and_the_admin_group_counts_without_being_one() -> None:
    claims = {"groups": ["stewards", "everybody", "admins"]}

    profile = read(claims, groups={"stewards"}, admin_group="admins")

    assert profile.groups == ("stewards",)
    assert profile.is_admin
    assert not read({"groups": ["others"]}, admin_group="admins").is_admin
    assert len(read({"groups": [str(number) for number in range(MOST_GROUPS + 5)]}).groups) == MOST_GROUPS


@pytest.mark.parametrize("claims", [{"sub": ""}, {"sub": None}, {"sub": 7}, {"sub": "x" * 256}, {"iss": ""}])
def test_claims_without_a_subject_are_nobody(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidClaims):
        read(claims)


@pytest.mark.parametrize(
    ("url", "is_safe"),
    [
        ("https://id.example/realms/x", True),
        ("http://127.0.0.1:9000", True),
        ("http://[::1]:9000/x", True),
        ("http://localhost:9000", True),
        ("http://id.example", False),
        ("http://localhost.example", False),
        ("https://user@id.example", False),
        ("https://id.example/a b", False),
        ("https://[bad", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_only_tls_and_loopback_are_protected(url: str, is_safe: bool) -> None:
    assert is_protected(url) is is_safe
