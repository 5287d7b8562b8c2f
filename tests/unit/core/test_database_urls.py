"""What DATABASE_URL may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.config.database_urls import read_database_url

HOME = Path("/srv/tributary")


def test_unset_is_the_file_in_the_home() -> None:
    found = read_database_url("", home=HOME)
    assert (found["ENGINE"], found["NAME"]) == ("django.db.backends.sqlite3", "/srv/tributary/db.sqlite3")
    assert found["OPTIONS"]["transaction_mode"] == "IMMEDIATE"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgresql_with_everything_encoded(scheme: str) -> None:
    found = read_database_url(f"{scheme}://a%40b:p%2Fw%3F@db.example:6432/data%20base?sslmode=require", home=HOME)
    assert [found[key] for key in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "a@b",
        "p/w?",
        "db.example",
        "6432",
        "data base",
    ]
    assert found["OPTIONS"]["sslmode"] == "require"
    assert "lock_timeout" in found["OPTIONS"]["options"]


def test_a_socket_and_options_of_ones_own() -> None:
    found = read_database_url("postgresql://me@/name?host=/Run/Sockets&port=5433&options=", home=HOME)
    assert (found["HOST"], found["PORT"], found["OPTIONS"]["options"]) == ("/Run/Sockets", "5433", "")


@pytest.mark.parametrize("url", ["mysql://host/name", "postgresql://host", "host/name"])
def test_what_cannot_be_used_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="DATABASE_URL"):
        read_database_url(url, home=HOME)
