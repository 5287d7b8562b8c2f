"""What texts name, and links from there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.core.templatetags.markdown import render
from webapp.pulls.rules.references import References, collect_references

LINKS = {
    "/shop/raw[5, UA]": "/r/shop/pulls/1/data?row=5",
    "#3": "/r/shop/pulls/3",
    "/shop/raw": "/d/shop/raw",
    "build 12": "/builds/12",
    "abcdef1": "/r/shop/commit/abcdef1",
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See #3, and (#14).", References(pulls={3, 14})),
        ("It reads /shop/raw/orders.", References(paths={"/shop/raw/orders"})),
        ("Build 12 and build 7", References(builds={12, 7})),
        ("/shop/raw[2013-07-10, UA] is", References(paths={"/shop/raw"}, rows={("/shop/raw", "2013-07-10, UA")})),
        (
            "since abcdef1 or 0123456789abcdef0123456789abcdef01234567",
            References(shas={"abcdef1", "0" + "123456789abcdef0123456789abcdef01234567"}),
        ),
        ("a#3 ##3 #3a abcdef abcdefg x/y https://example.org/shop/raw rebuild 12 #1234567890", References()),
    ],
)
def test_names_in_a_text(text: str, found: References) -> None:
    assert collect_references([text]) == found


@pytest.mark.parametrize(
    ("text", "html"),
    [
        (
            "At /shop/raw[5, UA]: why?",
            '<p>At <a href="/r/shop/pulls/1/data?row=5" rel="noopener noreferrer">/shop/raw[5, UA]</a>: why?</p>\n',
        ),
        ("See #3.", '<p>See <a href="/r/shop/pulls/3" rel="noopener noreferrer">#3</a>.</p>\n'),
        ("**/shop/raw**", '<p><strong><a href="/d/shop/raw" rel="noopener noreferrer">/shop/raw</a></strong></p>\n'),
        ("`#3` and /shop/raws, #33", "<p><code>#3</code> and /shop/raws, #33</p>\n"),
        ("[#3](https://example.org)", '<p><a href="https://example.org" rel="noopener noreferrer">#3</a></p>\n'),
        ("    build 12\n", "<pre><code>build 12\n</code></pre>\n"),
    ],
)
def test_what_is_named_is_linked_but_in_code_and_links(text: str, html: str) -> None:
    assert render(text, LINKS) == html


@given(st.text(st.sampled_from("#3 /shopraw`*[](<>&)\n"), max_size=30))
def test_links_change_no_word(text: str) -> None:
    import re

    def words(html: str) -> str:
        return re.sub(r"</?a\b[^>]*>", "", html)

    assert words(render(text, {"#3": "/3", "/s": "/d/s"})) == words(render(text))
