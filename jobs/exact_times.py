"""Times that PyIceberg reads as others or not at all.

PyArrow reads the old Parquet type INT96 as nanoseconds, which reach from 1677 to 2262: 9999-12-31 becomes 1816-03-29. And a
table cannot be opened if a column of type timestamp_ns has a default, which PyIceberg has no reader for.
`tests/unit/test_private_names.py` fails when PyIceberg does either by itself: then that part goes.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import pyarrow as pa
import pyiceberg.io.pyarrow as reading
from pyiceberg.conversions import from_json, to_json
from pyiceberg.manifest import FileFormat
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

INT96_UNIT = "us"
_NANO_TYPES = (TimestampNanoType, TimestamptzNanoType)


def install() -> None:
    """Correct PyIceberg in this process, once."""
    formats = reading._get_file_format
    if hasattr(formats, "reads_int96"):
        return

    @wraps(formats)
    def file_format(kind: FileFormat, **options: Any) -> Any:
        if kind is FileFormat.PARQUET:
            options["coerce_int96_timestamp_unit"] = INT96_UNIT
        return formats(kind, **options)

    file_format.reads_int96 = True  # type: ignore[attr-defined]
    reading._get_file_format = file_format
    for kind in _NANO_TYPES:
        from_json.register(kind, _read_nanoseconds)
        to_json.register(kind, _write_nanoseconds)


def _read_nanoseconds(_kind: TimestampNanoType | TimestamptzNanoType, value: str | int) -> int:
    """Read a default in JSON as nanoseconds since 1970."""
    if isinstance(value, int):
        return value
    scalar = pa.scalar(value.removesuffix("+00:00")).cast(pa.timestamp("ns"))
    return int(scalar.value)


def _write_nanoseconds(kind: TimestampNanoType | TimestamptzNanoType, value: int) -> str:
    text: str = pa.scalar(value, pa.timestamp("ns")).cast(pa.string()).as_py().replace(" ", "T")
    return text if isinstance(kind, TimestampNanoType) else f"{text}+00:00"
