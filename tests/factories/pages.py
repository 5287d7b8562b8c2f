"""Pages as a browser reads them: how a template breaks its lines makes no difference."""

from __future__ import annotations

import re
from typing import Any


def read_page(answer: Any) -> str:
    """Return the HTML of an answer with single spaces, and none beside a tag."""
    text = " ".join(answer.content.decode().split())
    return re.sub(r"\s*(<[^>]*?) ?(>)\s*", r"\1\2", text)


def list_ticked(page: str | bytes) -> list[str]:
    """Return the datasets whose boxes are ticked."""
    text = page.decode() if isinstance(page, bytes) else page
    return re.findall(r'name="target"\s+value="([^"]+)"\s+checked', text)
