"""Types of columns and their defaults, as every reader can parse them."""

import re
from collections.abc import Callable, Iterator, Mapping
from ctypes import c_float
from datetime import date, time
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

INT_BITS = 31
LONG_BITS = 63
MOST_DIGITS = 38
_PLAIN = (
    r"boolean|int|long|float|double|date|time|timestamp|timestamptz|timestamp_ns|timestamptz_ns"
    r"|string|uuid|binary|unknown|variant|fixed\[\d{1,9}\]"
    r"|geometry(\([^()]+\))?|geography(\([^(),]+(, ?(spherical|vincenty|thomas|andoyer|karney))?\))?"
)
_PRIMITIVE = re.compile(_PLAIN, re.ASCII)
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)
_PROMOTIONS = {"int": ("long",), "float": ("double",), "date": ("timestamp", "timestamp_ns")}
_NO_KEYS = ("float", "double", "unknown", "variant", "geometry", "geography")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,9})?)?", re.ASCII)


def is_int(value: int) -> bool:
    """Return whether a number fits into Java's int."""
    return -(1 << INT_BITS) <= value < 1 << INT_BITS


def is_long(value: int) -> bool:
    """Return whether a number fits into Java's long."""
    return -(1 << LONG_BITS) <= value < 1 << LONG_BITS


def is_primitive(kind: str) -> bool:
    """Return whether this is the name of a primitive type, in the one spelling that all readers know."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return 0 < int(decimal[1]) <= MOST_DIGITS and int(decimal[2]) <= int(decimal[1])
    return _PRIMITIVE.fullmatch(kind) is not None


def can_read(kind: Any, written: Any) -> bool:
    """Return whether readers take values of one type for those of another; of nested types only the kind counts."""
    if not isinstance(kind, str) or not isinstance(written, str):
        return isinstance(kind, dict) and isinstance(written, dict) and bool(kind["type"] == written["type"])
    wide, narrow = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(written)
    if wide is not None and narrow is not None:
        return int(wide[2]) == int(narrow[2]) and int(wide[1]) >= int(narrow[1])
    return written in (kind, "unknown") or kind in _PROMOTIONS.get(written, ())


def identifier_candidates(struct: Mapping[str, Any]) -> Iterator[int]:
    """Yield the ids of the columns that may identify a row: required, primitive, comparable, in required structs."""
    for item in struct["fields"]:
        kind = item["type"]
        if not item["required"]:
            continue
        if isinstance(kind, str):
            if not kind.startswith(_NO_KEYS):
                yield item["id"]
        elif kind["type"] == "struct":
            yield from identifier_candidates(kind)


def is_default(kind: Any, value: Any) -> bool:
    """Return whether a value, in the JSON form of single values, can be the default of a column of this type."""
    if not isinstance(kind, str):
        return False
    base = re.split(r"[(\[]", kind)[0]
    numeric, textual = _NUMBERS.get(base), _TEXTS.get(base)
    try:
        return (numeric is not None and numeric(value)) or (
            textual is not None and isinstance(value, str) and textual(value)
        )
    except (ValueError, InvalidOperation):
        return False


def same_default(kind: Any, value: Any, old_kind: Any, old_value: Any) -> bool:
    """Return whether a default is the one that a column had before its type may have been promoted.

    Writers spell one value in several ways: `0AFF` and `0aff`, or a time with and without its seconds.
    """
    if value is None or old_value is None or value == old_value:
        return bool(value == old_value)
    base, old_base = (re.split(r"[(\[]", str(name))[0] for name in (kind, old_kind))
    if base == "double" and old_base == "float":
        base = "float"  # a promoted value has all digits of the 32-bit one
    if old_base == "date" and base.startswith("timestamp"):
        old_value = f"{old_value}T00:00"
    read = _COMPARED_AS.get(base)
    return read is not None and bool(read(value) == read(old_value))


def _complete_clock(value: str) -> str:
    """Return a time, or a date with a time, with seconds and all digits of nanoseconds."""
    moment, plus, zone = value.partition("+")
    seconds, _, fraction = moment.partition(".")
    return f"{seconds if seconds.count(':') > 1 else seconds + ':00'}.{fraction:0<9}{plus}{zone}"


def _is_date(value: str) -> bool:
    return _DATE.fullmatch(value) is not None and bool(date.fromisoformat(value))


def _is_time(value: str) -> bool:
    # Nanoseconds are digits that Python does not take.
    return _TIME.fullmatch(value) is not None and isinstance(time.fromisoformat(value.partition(".")[0]), time)


def _is_moment(value: str) -> bool:
    day, _, clock = value.partition("T")
    return _is_date(day) and _is_time(clock)


def _is_utc(value: str) -> bool:
    return value.endswith("+00:00") and _is_moment(value.removesuffix("+00:00"))


def _is_hex(value: str) -> bool:
    return bytes.fromhex(value) is not None


_NUMBERS: Mapping[str, Callable[[Any], bool]] = {
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and is_int(value),
    "long": lambda value: type(value) is int and is_long(value),
    "float": lambda value: isinstance(value, float),
    "double": lambda value: isinstance(value, float),
}
_TEXTS: Mapping[str, Callable[[str], bool]] = {
    "decimal": lambda value: Decimal(value).is_finite(),
    "string": lambda _value: True,
    "uuid": lambda value: bool(UUID(value)),
    "binary": _is_hex,
    "fixed": _is_hex,
    "date": _is_date,
    "time": _is_time,
    "timestamp": _is_moment,
    "timestamp_ns": _is_moment,
    "timestamptz": _is_utc,
    "timestamptz_ns": _is_utc,
}
_COMPARED_AS: Mapping[str, Callable[[Any], Any]] = {
    "decimal": Decimal,
    "float": lambda value: c_float(value).value,
    "uuid": UUID,
    "binary": bytes.fromhex,
    "fixed": bytes.fromhex,
    **dict.fromkeys(("time", "timestamp", "timestamp_ns", "timestamptz", "timestamptz_ns"), _complete_clock),
}
