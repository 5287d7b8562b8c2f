"""Which column of one end is which of the other, and the SQL by which two values of them are compared.

Columns match by field id, the rest by name. A pair of one type compares as it is; a promoted pair compares in the
wider type; a retyped pair compares by canonical text (numbers by their value), so that `7` and `'7'` are the same
and only the schema diff shows the change. Nested types compare the parts that both ends have.

Two values are the same when both are NULL, both NaN, or equal by value; -0.0 equals 0.0; text compares by its bytes,
binary by content, structs field by field, lists in order, maps as sets of entries (`scan` reads maps in key order).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobs.engine.read.fields import ListType, MapType, Primitive, Schema, StructType, children, duckdb_type, literal
from jobs.engine.read.paths import field_parts, list_paths
from jobs.engine.read.scan import ScanColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobs.engine.read.fields import Field, Type

MAX_PRECISION = 38
_INTEGER_DIGITS = {"int": 10, "long": 19}
# beyond this a double has no exact DECIMAL(38,18), and its own shortest text is canonical enough
_LARGEST_PLAIN = "1e18"


@dataclass(frozen=True)
class Pair:
    """One column of the diff, or a field inside a struct column: what it is before and after."""

    index: int
    name: str
    before: Field | None
    after: Field | None
    is_key: bool = False
    is_ignored: bool = False
    outer: Pair | None = None
    """The struct that a field stands in; None for a column."""

    @property
    def column(self) -> Pair:
        """The column that has to be read."""
        return self if self.outer is None else self.outer.column

    def end(self, side: str) -> Field | None:
        """Return what it is at one end, `b` or `a`."""
        return self.before if side == "b" else self.after

    def path(self, side: str) -> list[str]:
        """Return the names at one end from the column down."""
        field = self.end(side)
        return [
            *(self.outer.path(side) if self.outer is not None else ()),
            *((field.name,) if field is not None else ()),
        ]

    def value(self, side: str) -> str:
        """Return SQL of the value of one end, out of the columns `b<i>` or `a<i>`; a NULL struct has NULL fields."""
        if self.outer is None:
            return f"{side}{self.index}"
        field = self.end(side)
        return "NULL" if field is None else part(self.outer.value(side), field)

    @property
    def names(self) -> set[str]:
        """What it is called at either end."""
        return {field.name for field in (self.before, self.after) if field is not None}

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers at both ends."""
        return all(
            field is not None and isinstance(field.type, Primitive) and field.type.is_number
            for field in (self.before, self.after)
        )

    @property
    def same_field(self) -> bool:
        """Whether both ends read one file alike: the same fields, with the same values for rows older than these."""
        return self.before is not None and self.after is not None and _reads_alike(self.before, self.after)

    @property
    def is_one_type(self) -> bool:
        """Whether both ends have one field of one type, so that the same can be said of equal values."""
        return (
            self.same_field
            and self.before is not None
            and self.after is not None
            and self.before.type == self.after.type
        )

    @property
    def unreadable(self) -> bool:
        """A type that no executor holds exactly, such as `variant`: said so, never called equal."""
        if self.outer is not None and self.outer.unreadable:
            return True
        return any(field is not None and duckdb_type(field.type) is None for field in (self.before, self.after))

    @property
    def compared(self) -> bool:
        return self.before is not None and self.after is not None and not self.is_ignored and not self.unreadable


def _reads_alike(before: Field, after: Field) -> bool:
    if (before.id, before.default) != (after.id, after.default):
        return False
    inner: Iterable[tuple[Field | None, Field | None]] = ()
    if isinstance(before.type, StructType) and isinstance(after.type, StructType):
        pairs = pair_columns(Schema(0, before.type.fields), Schema(0, after.type.fields))
        inner = ((pair.before, pair.after) for pair in pairs)
    elif type(before.type) is type(after.type):
        inner = zip(children(before.type), children(after.type), strict=True)
    return all(old is None or new is None or _reads_alike(old, new) for old, new in inner)


def pair_columns(
    before: Schema | None,
    after: Schema | None,
    *,
    key: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    by_id: bool = True,
) -> tuple[Pair, ...]:
    """Match the columns of two schemas: those of `after` in its order, then those only `before` has."""
    old = list(before.fields) if before is not None else []
    new = list(after.fields) if after is not None else []
    partner: dict[int, Field] = {}
    if by_id:
        old_ids = {field.id: field for field in old}
        partner = {index: old_ids[field.id] for index, field in enumerate(new) if field.id in old_ids}
    taken = {field.id for field in partner.values()}
    free = {field.name: field for field in old if field.id not in taken}
    for index, field in enumerate(new):
        if index not in partner and field.name in free:
            partner[index] = free.pop(field.name)
    taken = {field.id for field in partner.values()}
    matched = [(partner.get(index), field) for index, field in enumerate(new)]
    rest = [(field, None) for field in old if field.id not in taken]
    return tuple(
        _pair(index, left, right, key=key, ignore=ignore) for index, (left, right) in enumerate([*matched, *rest])
    )


def _pair(
    index: int, before: Field | None, after: Field | None, *, key: tuple[str, ...], ignore: tuple[str, ...]
) -> Pair:
    names = {field.name for field in (after, before) if field is not None}
    is_key = any(name in names for name in key)
    return Pair(
        index=index,
        name=next(field.name for field in (after, before) if field is not None),
        before=before,
        after=after,
        is_key=is_key,
        is_ignored=not is_key and any(name in names for name in ignore),
    )


def find_pair(name: str, pairs: Sequence[Pair]) -> Pair | None:
    """Find the column of a name, or the field inside a struct column; the end's names go before those that it had."""
    for side in "ab":
        fields = [field for pair in pairs if (field := pair.end(side)) is not None]
        path = list_paths(fields, field_parts).get(name)
        if path is not None:
            return _follow(path, pairs, side)
    return None


def _follow(path: Sequence[Field], pairs: Sequence[Pair], side: str) -> Pair:
    outer = next(pair for pair in pairs if pair.end(side) == path[0])
    return outer if len(path) == 1 else _follow(path[1:], _inner_pairs(outer), side)


def _inner_pairs(outer: Pair) -> list[Pair]:
    """Return the fields inside a struct, matched as columns are."""
    before, after = (
        Schema(0, field.type.fields) if field is not None and isinstance(field.type, StructType) else None
        for field in (outer.before, outer.after)
    )
    return [replace(pair, name=f"{outer.name}.{pair.name}", outer=outer) for pair in pair_columns(before, after)]


def scan_columns(pairs: Iterable[Pair], side: str) -> list[ScanColumn]:
    """Return the columns of one end that can be read, `b<i>` or `a<i>`."""
    return [
        ScanColumn(f"{side}{pair.index}", field)
        for pair in pairs
        if (field := pair.end(side)) is not None and not pair.unreadable
    ]


def match_value(pair: Pair) -> str:
    """Return SQL of the value by which a row is matched, from whichever side has it."""
    if pair.before is not None and pair.after is not None:
        before, after = comparable(pair.before.type, pair.after.type, pair.value("b"), pair.value("a"))
        return f"coalesce({before}, {after})"
    return pair.value("b" if pair.after is None else "a")


def comparable(before: Type, after: Type, left: str, right: str) -> tuple[str, str]:
    """Return SQL of the same type for a value of each end, equal exactly where the values are the same."""
    if before == after:
        return left, right
    if isinstance(before, Primitive) and isinstance(after, Primitive):
        return _comparable_primitives(before, after, left, right)
    if isinstance(before, StructType) and isinstance(after, StructType):
        return _comparable_structs(before, after, left, right)
    if isinstance(before, ListType) and isinstance(after, ListType):
        inner = comparable(before.element.type, after.element.type, "x", "x")
        return _each(left, inner[0]), _each(right, inner[1])
    if isinstance(before, MapType) and isinstance(after, MapType):
        return _comparable_maps(before, after, left, right)
    return text(before, left), text(after, right)


def _each(value: str, inner: str) -> str:
    return value if inner == "x" else f"list_transform({value}, lambda x: {inner})"


def _comparable_structs(before: StructType, after: StructType, left: str, right: str) -> tuple[str, str]:
    pairs = pair_columns(Schema(0, before.fields), Schema(0, after.fields))
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in pairs:
        if pair.before is None or pair.after is None:
            continue
        values = comparable(pair.before.type, pair.after.type, part(left, pair.before), part(right, pair.after))
        for side, value in zip(sides, values, strict=True):
            side.append(f"f{pair.index} := {value}")
    packed = [f"struct_pack({', '.join(side)})" if side else "struct_pack(f := 1)" for side in sides]
    return _unless_null(left, packed[0]), _unless_null(right, packed[1])


def _comparable_maps(before: MapType, after: MapType, left: str, right: str) -> tuple[str, str]:
    keys = comparable(before.key.type, after.key.type, "x.key", "x.key")
    values = comparable(before.value.type, after.value.type, "x.value", "x.value")
    entries = [f"lambda x: struct_pack(k := {key}, v := {value})" for key, value in zip(keys, values, strict=True)]
    return (
        _unless_null(left, f"list_sort(list_transform(map_entries({left}), {entries[0]}))"),
        _unless_null(right, f"list_sort(list_transform(map_entries({right}), {entries[1]}))"),
    )


def part(value: str, field: Field) -> str:
    """Return SQL of one field of a struct."""
    return f"struct_extract({value}, {literal(field.name)})"


def _unless_null(value: str, otherwise: str) -> str:
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {otherwise} END"


def _comparable_primitives(before: Primitive, after: Primitive, left: str, right: str) -> tuple[str, str]:
    if before.is_bytes and after.is_bytes:
        return left, right
    names = {before.name, after.name}
    if "string" in names and (before.is_bytes or after.is_bytes):
        return _as_bytes(before, left), _as_bytes(after, right)
    common = _common_type(before, after)
    if common is not None:
        return f"CAST({left} AS {common})", f"CAST({right} AS {common})"
    if before.is_number and after.is_number:
        return number_text(before, left), number_text(after, right)
    return _loose_text(before, left, after), _loose_text(after, right, before)


def _as_bytes(type_: Primitive, value: str) -> str:
    return value if type_.is_bytes else f"encode({value})"


def _common_type(before: Primitive, after: Primitive) -> str | None:
    """Return the type in which both ends' values are exact."""
    return "TIMESTAMP" if {before.name, after.name} == {"date", "timestamp"} else common_number(before, after)


def common_number(before: Primitive, after: Primitive) -> str | None:
    """Return the SQL type, of DuckDB and Spark, in which the numbers of both ends are exact; None where there is none."""
    if before.is_integer and after.is_integer:
        return "BIGINT"
    if before.is_float and after.is_float:
        return "DOUBLE"
    parts = [_digits(before), _digits(after)]
    if any(digits is None for digits in parts):
        return None
    whole = max(digits[0] for digits in parts if digits is not None)
    scale = max(digits[1] for digits in parts if digits is not None)
    return f"DECIMAL({whole + scale},{scale})" if whole + scale <= MAX_PRECISION else None


def _digits(type_: Primitive) -> tuple[int, int] | None:
    """Count the digits before and after the point of an exact number type."""
    if type_.decimal is not None:
        precision, scale = type_.decimal
        return precision - scale, scale
    digits = _INTEGER_DIGITS.get(type_.name)
    return None if digits is None else (digits, 0)


def number_text(type_: Primitive, value: str) -> str:
    """Return SQL of a number's value as text without a trailing zero, the same for every number type."""
    if type_.is_integer:
        return f"CAST({value} AS VARCHAR)"
    if type_.decimal is not None:
        return _strip_zeros(f"CAST({value} AS VARCHAR)")
    wide = f"CAST({value} AS DOUBLE)"
    exact = f"TRY_CAST(CAST({value} AS VARCHAR) AS DECIMAL(38,18))"
    plain = _strip_zeros(f"CAST({exact} AS VARCHAR)")
    fits = f"isfinite({wide}) AND abs({wide}) < {_LARGEST_PLAIN} AND CAST({exact} AS DOUBLE) = {wide}"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {wide} = 0 THEN '0' WHEN {fits} THEN {plain} ELSE {_float_text(value)} END"


def _strip_zeros(digits: str) -> str:
    return rf"regexp_replace(regexp_replace({_lead_zero(digits)}, '(\.\d*?)0+$', '\1'), '\.$', '')"


def _lead_zero(digits: str) -> str:
    """Put the zero before the point that DuckDB leaves out of a decimal that is all fraction."""
    return rf"regexp_replace({digits}, '^(-?)\.', '\10.')"


def _float_text(value: str) -> str:
    return (
        f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) AND {value} > 0 THEN 'Infinity' "
        f"WHEN isinf({value}) THEN '-Infinity' WHEN {value} = 0 THEN '0.0' ELSE CAST({value} AS VARCHAR) END"
    )


def text(type_: Type, value: str) -> str:
    """Return SQL of a value as canonical text to read it back from: ISO 8601 times, base64 bytes, JSON for nested."""
    if not isinstance(type_, Primitive):
        return f"CAST(to_json({value}) AS VARCHAR)"
    if type_.is_float:
        return _float_text(value)
    if type_.is_bytes:
        return f"to_base64({value})"
    plain = f"CAST({value} AS VARCHAR)"
    if type_.decimal is not None:
        return _lead_zero(plain)
    if type_.name in {"timestamp", "timestamp_ns"}:
        return f"replace({plain}, ' ', 'T')"
    if type_.name in {"timestamptz", "timestamptz_ns"}:
        return f"replace(replace({plain}, ' ', 'T'), '+00', '+00:00')"
    return plain


def _loose_text(type_: Primitive, value: str, partner: Primitive) -> str:
    """Return text for a pair of which one may be a string: a date and time written with a space or a Z reads the same."""
    plain = text(type_, value)
    if type_.name != "string" or not partner.name.startswith("timestamp"):
        return plain
    with_t = rf"regexp_replace({plain}, '^(\d{{4}}-\d\d-\d\d) (\d\d:)', '\1T\2')"
    return rf"regexp_replace({with_t}, '(T\d\d:.*)Z$', '\1+00:00')"
