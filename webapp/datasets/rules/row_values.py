"""Values that people type, as values of a column's type: SQL conditions that are exact, whatever the type can hold.

Where a column holds whole steps (integers, decimals, dates, times), a value between two of them or beyond all is compared
as the number it is, and a date stands for its whole day. A comparison leaves NULL out; NaN is neither less nor greater
than anything.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING
from uuid import UUID

from webapp.datasets.rules.shown_text import shown_text

if TYPE_CHECKING:
    from collections.abc import Callable

Condition = tuple[str, tuple[object, ...]]
"""SQL with its parameters."""

NEVER: Condition = ("false", ())
_BITS = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)$")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$", re.IGNORECASE | re.ASCII)
_FLOATS = {"nan": math.nan, "infinity": math.inf, "inf": math.inf, "∞": math.inf}
_MOMENT = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"([T ](?P<time>\d\d:\d\d(:\d\d(\.\d{1,9})?)?)(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?$",
    re.IGNORECASE | re.ASCII,
)
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?$", re.ASCII)
_EPOCH = date(1970, 1, 1).toordinal()
_DAY = 86_400
_FURTHEST = 100
"""Powers of ten beyond which no type has values."""


class UnfitError(Exception):
    """A value or a comparison that a column's type does not have; the message ends a sentence."""


@dataclass(frozen=True)
class _ValueSpan:
    """A typed value in steps of a type: one point, or all from `low` to before `high`."""

    low: Fraction
    high: Fraction | None = None

    @property
    def first(self) -> int:
        return math.ceil(self.low)

    @property
    def last(self) -> int:
        """Less than `first` where the point lies between two steps."""
        return math.floor(self.low) if self.high is None else math.ceil(self.high) - 1


@dataclass(frozen=True)
class _Steps:
    """A type with an order whose values are whole steps."""

    read: Callable[[str], _ValueSpan]
    write: Callable[[int], Condition]
    least: int | None = None
    most: int | None = None

    def compare(self, value: str, operator: str, text: str) -> Condition:
        span = self.read(text)
        match operator:
            case "<":
                return self._to(value, span.first - 1)
            case "<=":
                return self._to(value, span.last)
            case ">":
                return self._from(value, span.last + 1)
            case ">=":
                return self._from(value, span.first)
            case "!=":
                return _either(self._to(value, span.first - 1), self._from(value, span.last + 1))
        if span.first > span.last:
            return NEVER
        return _both(self._from(value, span.first), self._to(value, span.last))

    def _to(self, value: str, step: int) -> Condition:
        if self.least is not None and step < self.least:
            return NEVER
        if self.most is not None and step >= self.most:
            return f"{value} IS NOT NULL", ()
        written, parameters = self.write(step)
        return f"{value} <= {written}", parameters

    def _from(self, value: str, step: int) -> Condition:
        if self.most is not None and step > self.most:
            return NEVER
        if self.least is not None and step <= self.least:
            return f"{value} IS NOT NULL", ()
        written, parameters = self.write(step)
        return f"{value} >= {written}", parameters


def compare(value: str, type_: str, operator: str, text: str) -> Condition:
    """Return the condition that a stored value compares so with what was typed.

    Args:
        value: SQL of the stored value.
        type_: its DuckDB type.
        operator: one of `= != < <= > >=`, or `~`: its text holds the typed one, in small or capital letters.
        text: what was typed.

    Raises:
        UnfitError: the type has no such value or comparison.

    """
    if operator == "~":
        return contains(value, type_, text)
    if type_ == "VARCHAR":
        return _sign(value, operator, "?", text)
    if is_nested(type_):
        if operator not in ("=", "!="):
            raise UnfitError("which has parts; ask with = != ~ or is null")
        return _sign(shown_text(value, type_), operator, "?", text)
    if type_ in ("FLOAT", "DOUBLE"):
        return _compare_floats(value, type_, operator, _read_float(text))
    if steps := _steps_of(type_):
        return steps.compare(value, operator, text)
    if operator not in ("=", "!="):
        raise UnfitError("which has no order; compare with = or !=")
    if type_ == "BLOB":
        return _sign(value, operator, "from_base64(?)", _read_base64(text))
    if type_ == "UUID":
        return _sign(value, operator, "CAST(? AS UUID)", _read_uuid(text))
    if type_ == "BOOLEAN":
        return _sign(value, operator, "CAST(? AS BOOLEAN)", _read_boolean(text))
    raise UnfitError("which cannot be searched")


def contains(value: str, type_: str, text: str) -> Condition:
    """Return the condition that the text which a page or the API shows holds another one, in small or capital letters."""
    if type_ == "VARCHAR":
        return f"contains(lower({value}), lower(?))", (text,)
    shown = shown_text(value, type_)
    if is_nested(type_):
        written = f"CAST(to_json({value}) AS VARCHAR)"
        return f"(contains(lower({shown}), lower(?)) OR contains(lower({written}), lower(?)))", (text, text)
    if type_.startswith("TIMESTAMP"):
        text = re.sub(r"(?<=\d) (?=\d)", "T", text)
        text = re.sub(r"(?<=\d)Z$", "+00:00", text, flags=re.IGNORECASE)
    elif type_ in _BITS or type_ in ("FLOAT", "DOUBLE") or type_.startswith("DECIMAL"):
        text = _minus(text).replace("∞", "Infinity")
    return f"contains(lower({shown}), lower(?))", (text,)


def is_nested(type_: str) -> bool:
    """Return whether values of a DuckDB type have parts."""
    return type_.startswith(("STRUCT", "MAP")) or type_.endswith("]")


def _sign(value: str, operator: str, written: str, parameter: object) -> Condition:
    return f"{value} {'<>' if operator == '!=' else operator} {written}", (parameter,)


def _both(left: Condition, right: Condition) -> Condition:
    if NEVER in (left, right):
        return NEVER
    return f"({left[0]} AND {right[0]})", left[1] + right[1]


def _either(left: Condition, right: Condition) -> Condition:
    return f"({left[0]} OR {right[0]})", left[1] + right[1]


def _steps_of(type_: str) -> _Steps | None:
    if (bits := _BITS.get(type_)) is not None:
        return _Steps(_read_number, lambda step: (f"CAST(? AS {type_})", (str(step),)), -(2**bits), 2**bits - 1)
    if match := _DECIMAL.match(type_):
        precision, scale = int(match[1]), int(match[2])
        most = 10**precision - 1
        return _Steps(
            lambda text: _ValueSpan(_read_number(text).low * 10**scale),
            lambda step: (f"CAST(? AS {type_})", (_write_decimal(step, scale),)),
            -most,
            most,
        )
    if type_ == "DATE":
        return _Steps(_read_day, lambda step: ("(DATE '1970-01-01' + CAST(? AS INTEGER))", (step,)))
    if type_ == "TIME":
        return _Steps(_read_time, _write_time, 0, _DAY * 10**6 - 1)
    if type_.startswith("TIMESTAMP"):
        return _moment_steps(type_)
    return None


def _write_decimal(step: int, scale: int) -> str:
    """Write so many steps of a decimal; Python's decimals would round beyond 28 digits."""
    digits = f"{abs(step):0{scale + 1}}"
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' * (step < 0)}{whole}{'.' * bool(scale)}{fraction}"


def _moment_steps(type_: str) -> _Steps:
    is_fine, has_zone = type_.startswith("TIMESTAMP_NS"), "ZONE" in type_ or "TZ" in type_
    written = f"CAST({'make_timestamp_ns' if is_fine else 'make_timestamp'}(CAST(? AS BIGINT)) AS {type_})"
    return _Steps(
        lambda text: _read_moment(text, per_second=10**9 if is_fine else 10**6, has_zone=has_zone),
        lambda step: (written, (step,)),
    )


def _read_number(text: str) -> _ValueSpan:
    plain = _minus(text)
    if not _NUMBER.match(plain):
        raise UnfitError(f"and {text!r} is no number")
    number = Decimal(plain)
    if number and abs(number.adjusted()) > _FURTHEST:
        # a number of that many digits would take the memory
        number = Decimal(1).scaleb(math.copysign(_FURTHEST, number.adjusted()).__trunc__()).copy_sign(number)
    return _ValueSpan(Fraction(number))


def _read_float(text: str) -> float:
    plain = _minus(text)
    named = _FLOATS.get(plain.lstrip("+-").lower())
    if named is not None:
        return -named if plain.startswith("-") else named
    if not _NUMBER.match(plain):
        raise UnfitError(f"and {text!r} is no number")
    return float(plain)


def _minus(text: str) -> str:
    """Read a number as typed or copied from a page, which writes a real minus sign."""
    return text.strip().replace("\N{MINUS SIGN}", "-", 1)


def _compare_floats(value: str, type_: str, operator: str, number: float) -> Condition:
    # not isnan, which is answered by a file's minimum and maximum, and those leave NaN out
    is_number = f"(isfinite({value}) OR isinf({value}))"
    if math.isnan(number):
        if operator not in ("=", "!="):
            raise UnfitError("and NaN has no order")
        return f"{'' if operator == '!=' else 'NOT '}{is_number}", ()
    if type_ == "FLOAT":
        value, number = f"CAST({value} AS DOUBLE)", _round_to_float(number)
    test, parameters = _sign(value, operator, "CAST(? AS DOUBLE)", number)
    if operator == "!=":
        return f"({test} OR NOT {is_number})", parameters
    return f"({test} AND {is_number})", parameters


def _round_to_float(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return number


def _read_day(text: str) -> _ValueSpan:
    return _ValueSpan(Fraction(_days(text.strip(), f"and {text!r} is no date like 2013-07-10")))


def _days(text: str, problem: str) -> int:
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII):
            raise UnfitError(problem)
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        raise UnfitError(problem) from None


def _read_time(text: str) -> _ValueSpan:
    return _ValueSpan(_seconds(text.strip(), f"and {text!r} is no time like 12:30:00") * 10**6)


def _seconds(text: str, problem: str) -> Fraction:
    match = _TIME.match(text)
    if match is None:
        raise UnfitError(problem)
    hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise UnfitError(problem)
    return hour * 3600 + minute * 60 + second + Fraction(int(match[4] or 0), 10 ** len(match[4] or ""))


def _write_time(step: int) -> Condition:
    seconds, rest = divmod(step, 10**6)
    return "CAST(? AS TIME)", (f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:06}",)


def _read_moment(text: str, *, per_second: int, has_zone: bool) -> _ValueSpan:
    problem = f"and {text!r} is no time like 2013-07-10 12:30:00"
    match = _MOMENT.match(text.strip())
    if match is None:
        raise UnfitError(problem)
    if match["zone"] and not has_zone:
        raise UnfitError(f"and {text!r} has a zone, which its values have not")
    start = _days(match["day"], problem) * _DAY
    if match["time"] is None:
        return _ValueSpan(Fraction(start * per_second), Fraction((start + _DAY) * per_second))
    return _ValueSpan((start + _seconds(match["time"], problem) - _offset(match["zone"] or "Z")) * per_second)


def _offset(zone: str) -> int:
    """Return the seconds that lead from a zone's time to UTC."""
    if zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)


def _read_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnfitError(f"and {text!r} is no Base64") from None
    return text


def _read_uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise UnfitError(f"and {text!r} is no UUID") from None


def _read_boolean(text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise UnfitError(f"and {text!r} is neither true nor false")
    return text.lower()
