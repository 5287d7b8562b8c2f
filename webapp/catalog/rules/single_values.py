"""Single values in the JSON form of the table specification."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pyiceberg.conversions import to_json
from pyiceberg.types import (
    IcebergType,
    PrimitiveType,
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)
from pyiceberg.utils.datetime import micros_to_timestamp

NANOS = 1000


def single_value(kind: IcebergType, value: Any) -> Any:
    """Return a value as JSON shows it; `value` is in the form in which manifests hold it."""
    if value is None or isinstance(kind, UnknownType):
        return None
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType):
        micros, nanos = divmod(value, NANOS)
        text = micros_to_timestamp(micros).isoformat(timespec="microseconds")
        return f"{text}{nanos:03d}" + ("+00:00" if isinstance(kind, TimestamptzNanoType) else "")
    if isinstance(value, UUID):
        return str(value)
    return to_json(kind, value) if isinstance(kind, PrimitiveType) else None
