"""Whose word about a client is taken."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.entrypoints.keeper import OUTSIDE
from webapp.runtime.web.proxies import Proxies, drop_underscores, read_base

PROXIES = Proxies(["127.0.0.1", "::1", "10.0.0.0/8"])


def unwrap(client: str, *headers: tuple[str, str]) -> tuple[str, dict[str, str]]:
    """The address and the headers of a request, as the application sees them."""
    lines = [(name.encode(), value.encode()) for name, value in headers]
    scope: dict[str, Any] = {"headers": lines, "client": (client, "1")}
    unwrapped = PROXIES.unwrap(scope)
    return unwrapped["client"][0], {name.decode(): value.decode() for name, value in unwrapped["headers"]}


@pytest.mark.parametrize(
    ("client", "chain", "address"),
    [
        ("127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "198.51.100.1, 203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "203.0.113.7, 10.1.2.3", "203.0.113.7"),
        ("::1", "2001:db8::5", "2001:db8::5"),
        ("::ffff:127.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("127.0.0.1", "somebody, 10.1.2.3", "10.1.2.3"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_nearest_address_that_is_no_proxy_counts(client: str, chain: str, address: str) -> None:
    assert unwrap(client, ("x-forwarded-for", chain))[0] == address


def test_the_scheme_is_the_proxys_own_word() -> None:
    assert unwrap("10.0.0.1", ("x-forwarded-proto", "https, http"))[1] == {"x-forwarded-proto": "http"}
    assert unwrap("10.0.0.1", ("x-forwarded-proto", "http"), ("x-forwarded-proto", "https"))[1] == {
        "x-forwarded-proto": "https"
    }
    assert unwrap("203.0.113.9", ("x-forwarded-proto", "https"), ("host", "a"))[1] == {"host": "a"}


def test_what_jobs_say_of_others_is_not_believed_where_a_proxy_is_on_the_same_machine() -> None:
    assert not Proxies(["127.0.0.1", "::1"]).trusts(OUTSIDE)


def test_names_that_could_be_taken_for_others_are_dropped() -> None:
    scope = {"headers": [(b"x_forwarded_proto", b"https"), (b"host", b"a")]}
    assert drop_underscores(scope)["headers"] == [(b"host", b"a")]
    assert unwrap("127.0.0.1", ("x-forwarded-host", "evil.example"))[1] == {}


def test_links_have_the_name_that_was_asked_for_where_it_is_ours(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["tributary.example"]
    settings.TRIBUTARY_URL = "https://tributary.example"
    assert read_base({"host": "tributary.example:8", "x-forwarded-proto": "https"}) == "https://tributary.example:8"
    assert read_base({"host": "evil.example"}) == "https://tributary.example"
