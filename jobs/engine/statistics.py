"""placeholder"""
from __future__ import annotations
from typing import Any
def collect(diff: Any) -> dict[str, Any]:
    return {}
