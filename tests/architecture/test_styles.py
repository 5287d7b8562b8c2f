"""Rules of the style sheets that nobody sees by looking at one of them."""

from __future__ import annotations

import re
from pathlib import Path

STYLES = Path(__file__).parents[2] / "static" / "css"
SCROLLS = re.compile(r"overflow(?:-[xy])?:\s*(?:auto|scroll)")
IS_POSITIONED = re.compile(r"(?<![-\w])position:")


def test_scrolling_boxes_hold_their_hidden_words() -> None:
    """Words for screen readers are positioned: in a box that scrolls and is not, a long log made the page as long."""
    text = "".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in STYLES.rglob("*.css"))
    rules = [(selectors.strip(), body) for selectors, body in re.findall(r"([^{}]+)\{([^{}]*)\}", text)]
    positioned = {
        selector.strip() for selectors, body in rules if IS_POSITIONED.search(body) for selector in selectors.split(",")
    }
    scrolling = {
        selector.strip() for selectors, body in rules if SCROLLS.search(body) for selector in selectors.split(",")
    }
    assert scrolling - positioned == set()
    assert len(scrolling) > 10
