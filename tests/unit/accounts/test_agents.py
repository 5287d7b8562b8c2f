"""What a browser calls itself, in words."""

from __future__ import annotations

import pytest

from webapp.accounts.rules.agents import describe_agent

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1"


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (CHROME, "Chrome on Windows"),
        (f"{CHROME} Edg/140.0", "Edge on Windows"),
        (IPHONE, "Safari on iOS"),
        ("curl/8.14", "curl/8.14"),
        ("Firefox/140.0", "Firefox"),
        ("x" * 500, "x" * 60),
        (" ", "Unknown device"),
    ],
)
def test_an_agent_is_browser_and_system(agent: str, words: str) -> None:
    assert describe_agent(agent) == words
