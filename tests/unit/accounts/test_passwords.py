"""Common passwords are refused in their usual disguises, and long ones of one's own are not."""

from __future__ import annotations

import secrets

import pytest
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from webapp.accounts.rules.passwords import list_plainer

COMMON = [
    "passw0rd!",
    "Passw0rd!",
    "P@ssw0rd1",
    "P4$$w0rd2026!",
    "!!passw0rd!!",
    "pa55w0rd",
    "w3lc0m3!",
    "Welcome2026!",
    "dr4g0n2026",
    "1l0vey0u!",
    "iloveyou!!",
    "letmein!2026",
    "QWERTYuiop!",
    "12345678!",
    "passwordpassword",
    "dragondragon!",
    "abcabcabc",
    "  passw0rd!  ",
    "\uff50\uff41\uff53\uff53\uff57\uff10\uff52\uff44!",
    "\ufb01refighter1",
]
OWN = [
    "a-long-enough-secret",
    "correct horse battery staple",
    "dragon-73918465",
    "tr0ub4dor&3-of-mine",
    "kvittering-fjord-71",
]


@pytest.mark.parametrize("password", COMMON)
def test_common_passwords_are_refused_in_disguise(password: str) -> None:
    with pytest.raises(ValidationError) as refused:
        validate_password(password)
    assert "password_too_common" in {error.code for error in refused.value.error_list}


@pytest.mark.parametrize("password", OWN)
def test_passwords_of_ones_own_are_taken(password: str) -> None:
    validate_password(password)


def test_generated_passwords_are_taken() -> None:
    for _ in range(200):
        validate_password(f"x{secrets.token_urlsafe(12)}")


def test_long_passwords_take_no_time() -> None:
    for password in ("1" * 100_000, "!a" * 50_000, "a" * 100_000):
        assert len(list(list_plainer(password))) < 300
