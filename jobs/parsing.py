"""Parses JSON and TOML that may be damaged or hostile: text that is nested too deeply is malformed, not a crash."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_TOO_DEEP = "it is nested too deeply"


def load_json(text: str | bytes | bytearray, **hooks: Any) -> Any:
    """Parse JSON with the standard library; `hooks` are those of `json.loads`.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.

    """
    try:
        return json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: the text is not TOML, or is nested too deeply.

    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
