"""How values of rows are written in JSON, for every page and endpoint that shows rows.

Integers are numbers (beyond ±2^53 strings, which JavaScript would round), decimals, NaN and infinities strings, binary
base64, dates and times ISO 8601; lists, structs and maps follow the same rules inside.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

SAFE_INTEGER = 2**53

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def encode_value(value: Any) -> Json:
    """Return the value as JSON holds it without loss."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else _name_float(value)
    return _encode_other(value)


def encode_row(row: Mapping[str, Any]) -> dict[str, Json]:
    """Return a row with every value encoded."""
    return {name: encode_value(value) for name, value in row.items()}


def _encode_other(value: Any) -> Json:
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(name): encode_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_value(item) for item in value]
    return _encode_text(value)


def _encode_text(value: Decimal | UUID | timedelta | object) -> str:
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else str(value)
    return str(value)


def _name_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
