"""Row filters whose literals are those of their columns' types, exactly: PyIceberg rounds them.

`n > 1.5` of whole numbers is `n > 1`, `n < 1.5` is `n < 2`, and `n = 1.5` is true for no row. A comparison with NULL is not
true; `not in` keeps NULL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from ctypes import c_float
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from pyiceberg import expressions as e
from pyiceberg.expressions import literals
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

_DAY_S = 86_400
_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII | re.IGNORECASE
)
_CLOCK = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?", re.ASCII)
_HIGHEST_LONG = 2**63 - 1


class UnfitFilterError(ValueError):
    """A literal does not fit the type of its column."""

    def __init__(self, name: str, kind: IcebergType, reason: str) -> None:
        super().__init__(f"column {name!r} is a {kind}: {reason}")
        self.reason = reason


class _NanosecondsLiteral(literals.TimestampLiteral):  # type: ignore[misc]
    """A literal of nanoseconds, for which PyIceberg has none."""

    def to(self, _: IcebergType) -> literals.Literal[Any]:
        return self


@dataclass(frozen=True)
class _LiteralSteps:
    """A type whose values are whole numbers of steps."""

    least: int
    most: int
    read: Callable[[literals.Literal[Any]], Fraction]
    """Return how many steps a literal is; raises ValueError or TypeError."""
    write: Callable[[int], literals.Literal[Any]]


def fit_filter(expression: e.BooleanExpression, schema: Schema) -> e.BooleanExpression:
    """Return an expression that is true for the rows for which the given one is, with literals that lose nothing.

    Raises:
        UnfitFilterError: a literal does not fit the type of its column.
        ValueError: there is no such column.

    """
    return _fit(rewrite_not(expression), schema)


def _fit(expression: e.BooleanExpression, schema: Schema) -> e.BooleanExpression:
    if isinstance(expression, e.And | e.Or):
        return type(expression)(_fit(expression.left, schema), _fit(expression.right, schema))
    if not isinstance(expression, e.LiteralPredicate | e.SetPredicate):
        return expression
    name = str(expression.term.name)
    kind = schema.find_field(name).field_type
    try:
        if isinstance(expression, e.SetPredicate):
            return _fit_set(expression, name, kind)
        return _fit_comparison(expression, name, kind)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise UnfitFilterError(name, kind, str(error)) from None


def _fit_comparison(expression: e.LiteralPredicate, name: str, kind: IcebergType) -> e.BooleanExpression:
    if isinstance(expression, e.StartsWith | e.NotStartsWith):
        if not isinstance(kind, StringType):
            message = "like compares texts"
            raise TypeError(message)
        return expression
    fitted: e.BooleanExpression
    if (steps := _find_steps(kind)) is not None:
        fitted = _compare_steps(type(expression), name, steps, steps.read(expression.literal))
    elif isinstance(kind, FloatType | DoubleType):
        fitted = _compare_floats(type(expression), name, kind, expression.literal)
    else:
        return type(expression)(name, _convert(expression.literal, kind))
    # of files from before a type was promoted, PyIceberg takes a literal that no value reaches for true of NULL too
    return fitted if isinstance(expression, e.EqualTo) else e.And(fitted, e.NotNull(name))


def _fit_set(expression: e.SetPredicate, name: str, kind: IcebergType) -> e.BooleanExpression:
    same = [_fit_comparison(e.EqualTo(name, literal), name, kind) for literal in expression.literals]
    members = {item.literal for item in same if isinstance(item, e.EqualTo)}
    if isinstance(expression, e.In):
        return e.In(name, members)
    if len(members) == 1 and len(expression.literals) > 1:
        return e.Or(e.IsNull(name), e.NotIn(name, members))
    return e.NotIn(name, members)


def _compare_steps(
    operator: type[e.LiteralPredicate], name: str, steps: _LiteralSteps, value: Fraction
) -> e.BooleanExpression:
    floor = math.floor(value)
    is_whole = floor == value
    if issubclass(operator, e.EqualTo | e.NotEqualTo):
        is_reached = is_whole and steps.least <= floor <= steps.most
        if is_reached:
            return operator(name, steps.write(floor))
        return e.AlwaysFalse() if issubclass(operator, e.EqualTo) else e.NotNull(name)
    # all are said by the last value that is left out below, or the first that is left out above
    if issubclass(operator, e.GreaterThan | e.GreaterThanOrEqual):
        below = floor - 1 if is_whole and issubclass(operator, e.GreaterThanOrEqual) else floor
        if below >= steps.most:
            return e.AlwaysFalse()
        return e.NotNull(name) if below < steps.least else e.GreaterThan(name, steps.write(below))
    above = floor + 1 if not is_whole or issubclass(operator, e.LessThanOrEqual) else floor
    if above <= steps.least:
        return e.AlwaysFalse()
    return e.NotNull(name) if above > steps.most else e.LessThan(name, steps.write(above))


def _compare_floats(
    operator: type[e.LiteralPredicate], name: str, kind: IcebergType, literal: literals.Literal[Any]
) -> e.BooleanExpression:
    """Compare with the nearest value of the type; a whole number that it has not is between two of its values."""
    value = literal.value if isinstance(literal.value, float) else _read_number(literal)
    near = _round_float(value, kind)
    written = literals.FloatLiteral(near) if isinstance(kind, FloatType) else literals.DoubleLiteral(near)
    if isinstance(value, float) or value.denominator > 1 or (math.isfinite(near) and near == value):
        return operator(name, written)
    if issubclass(operator, e.EqualTo | e.NotEqualTo):
        return e.AlwaysFalse() if issubclass(operator, e.EqualTo) else e.NotNull(name)
    is_above = near == math.inf or (math.isfinite(near) and near > value)
    if issubclass(operator, e.GreaterThan | e.GreaterThanOrEqual):
        return (e.GreaterThanOrEqual if is_above else e.GreaterThan)(name, written)
    return (e.LessThan if is_above else e.LessThanOrEqual)(name, written)


def _round_float(value: Fraction | float, kind: IcebergType) -> float:
    try:
        double = float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
    return c_float(double).value if isinstance(kind, FloatType) else double


def _convert(literal: literals.Literal[Any], kind: IcebergType) -> literals.Literal[Any]:
    if isinstance(literal, literals.StringLiteral) and isinstance(kind, BinaryType | FixedType):
        try:
            content = bytes.fromhex(literal.value)
        except ValueError:
            message = f"{literal.value!r} is not hexadecimal, as in '00ff'"
            raise ValueError(message) from None
        if isinstance(kind, FixedType) and len(content) != len(kind):
            message = f"{literal.value!r} has {len(content)} bytes"
            raise ValueError(message)
        return literals.BinaryLiteral(content).to(kind)
    converted: literals.Literal[Any] = literal.to(kind)
    return converted


# --- types of steps -------------------------------------------------------------------------------


def _find_steps(kind: IcebergType) -> _LiteralSteps | None:
    if isinstance(kind, IntegerType | LongType):
        bits = 31 if isinstance(kind, IntegerType) else 63
        return _LiteralSteps(-(2**bits), 2**bits - 1, _read_number, literals.LongLiteral)
    if isinstance(kind, DecimalType):
        scale, most = kind.scale, 10**kind.precision - 1
        return _LiteralSteps(
            -most,
            most,
            lambda literal: _read_number(literal) * 10**scale,
            lambda step: literals.DecimalLiteral(
                Decimal((int(step < 0), tuple(map(int, str(abs(step)))), -scale))  # no context rounds it
            ),
        )
    make = _MOMENTS.get(type(kind))
    return None if make is None else make()


def _read_number(literal: literals.Literal[Any]) -> Fraction:
    value = literal.value
    if isinstance(value, bool) or isinstance(
        literal, literals.DateLiteral | literals.TimeLiteral | literals.TimestampLiteral
    ):
        message = f"{value!r} is no number"
        raise TypeError(message)
    try:
        number = Decimal(value)
    except InvalidOperation:
        message = f"{value!r} is no number"
        raise ValueError(message) from None
    if not number.is_finite() or abs(number.adjusted()) > 500:
        message = f"{value!r} is no number that a column holds"
        raise ValueError(message)
    return Fraction(number)


def _days() -> _LiteralSteps:
    def read(literal: literals.Literal[Any]) -> Fraction:
        if isinstance(literal, literals.DateLiteral | literals.LongLiteral):
            return Fraction(literal.value)
        return _read_seconds(literal, has_zone=None) / _DAY_S

    return _LiteralSteps(-(2**31), 2**31 - 1, read, literals.DateLiteral)


def _clock() -> _LiteralSteps:
    def read(literal: literals.Literal[Any]) -> Fraction:
        if isinstance(literal, literals.TimeLiteral):
            return Fraction(literal.value)
        match = _CLOCK.fullmatch(str(literal.value)) if isinstance(literal, literals.StringLiteral) else None
        if match is None:
            message = f"{literal.value!r} is no time of day, as in '14:30:00'"
            raise ValueError(message)
        return _count_seconds(*match.groups()) * 10**6

    return _LiteralSteps(0, _DAY_S * 10**6 - 1, read, literals.TimeLiteral)


def _moments(per_second: int, *, has_zone: bool) -> _LiteralSteps:
    def read(literal: literals.Literal[Any]) -> Fraction:
        if isinstance(literal, literals.LongLiteral):
            return Fraction(literal.value)
        return _read_seconds(literal, has_zone=has_zone) * per_second

    return _LiteralSteps(
        -_HIGHEST_LONG - 1,
        _HIGHEST_LONG,
        read,
        _NanosecondsLiteral if per_second > 10**6 else literals.TimestampLiteral,
    )


_MOMENTS: Mapping[type, Callable[[], _LiteralSteps]] = {
    DateType: _days,
    TimeType: _clock,
    TimestampType: lambda: _moments(10**6, has_zone=False),
    TimestamptzType: lambda: _moments(10**6, has_zone=True),
    TimestampNanoType: lambda: _moments(10**9, has_zone=False),
    TimestamptzNanoType: lambda: _moments(10**9, has_zone=True),
}


def _read_seconds(literal: literals.Literal[Any], *, has_zone: bool | None) -> Fraction:
    """Read a moment as seconds since 1970; `has_zone` says whether a text needs an offset, None that it has none."""
    if isinstance(literal, literals.DateLiteral):
        return Fraction(literal.value * _DAY_S)
    if isinstance(literal, literals.TimestampLiteral):
        return Fraction(literal.value, 10**6)
    match = _MOMENT.fullmatch(str(literal.value)) if isinstance(literal, literals.StringLiteral) else None
    if match is None:
        message = f"{literal.value!r} is no date or time, as in '2024-02-29T14:30:00'"
        raise ValueError(message)
    day, hour, minute, second, fraction, zone = match.groups()
    if bool(zone) != bool(has_zone):
        message = (
            f"{literal.value!r} {'needs an offset such as +00:00' if has_zone else 'has an offset, the column none'}"
        )
        raise ValueError(message)
    midnight = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
    offset = 0
    if zone and zone.upper() != "Z":
        offset = (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60) * (-1 if zone[0] == "-" else 1)
    return midnight - offset + _count_seconds(hour, minute, second, fraction)


def _count_seconds(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> Fraction:
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        message = "there is no such time of day"
        raise ValueError(message)
    whole = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0)
    return whole + Fraction(int(fraction or 0), 10 ** len(fraction or ""))
