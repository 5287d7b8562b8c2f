"""Decides which texts a type holds: every value, written back, must be an equal form of the text that was read.

The rules are SQL for DuckDB, so that CSV files, JSON texts and texts in Parquet files obey the same ones. An inferred type,
and the type of a table's column, take equal forms only. A type that a user chose also takes other spellings of its values,
such as `+7` for a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

from jobs.engine.read.fields import literal, quote

STRING = "string"
MISSING = ("NA", "N/A", "NULL", "null", "NaN", "nan", r"\N", "")
"""Words for a missing value in columns of other types than text. The empty one is a quoted empty field."""
INFERRED = ("boolean", "long", "double", "date", "timestamp", "timestamptz")
"""The first type that holds all values of a column wins; a column that none holds is text."""
SQL_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    STRING: "VARCHAR",
    "time": "TIME",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz_ns": "TIMESTAMPTZ_NS",
    "uuid": "BLOB",
}
"""Iceberg type → the type of DuckDB that is read for it."""
CHOICES = tuple(SQL_TYPES)[:9]
"""The types that a user can choose for a column, in Iceberg's words."""
_WIDER = {"int": "long", "float": "double"}
_NUMBERS = frozenset({"int", "long", "float", "double"})
_NUMBER = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_ANY_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
_NOT_FINITE = ("inf", "-inf", "Infinity", "-Infinity", "NaN", "nan")
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MINUTE = "([01][0-9]|2[0-3]):[0-5][0-9]"
_MICROSECONDS = r"(:[0-5][0-9](\.[0-9]{1,6}0*)?)?"
_NANOSECONDS = r"(:[0-5][0-9](\.[0-9]{1,9}0*)?)?"
_OFFSET = "(Z|[+-](0[0-9]|1[0-5])(:?[0-5][0-9])?)"
_UUID = "(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
_SHOWN = 100
"""Characters of a value in a message."""
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


@dataclass(frozen=True)
class Form:
    """A type for a column of texts, and how strictly it takes them."""

    word: str
    """The type, as Iceberg writes it."""
    is_chosen: bool = False
    """Whether a user chose the type."""
    is_inferred: bool = False
    """Whether nothing but the texts speaks for the type."""
    missing: Sequence[str] = MISSING
    """Words that stand for NULL, unless the type is text."""

    @property
    def sql_type(self) -> str:
        """The type of DuckDB."""
        return SQL_TYPES.get(self.word) or self.word.upper()

    def value(self, text: str) -> str:
        """Return the SQL of a text without what does not count: spaces around numbers, and words for missing values."""
        value = f"trim({text}, ' ')" if self.is_number else text
        if self.word == STRING or not self.missing:
            return value
        return f"CASE WHEN {value} IN ({', '.join(map(literal, self.missing))}) THEN NULL ELSE {value} END"

    def convert(self, text: str) -> str:
        """Return the SQL of what the type makes of a text."""
        value = self.value(text)
        return f"unhex(replace({value}, '-', ''))" if self.word == "uuid" else f"CAST({value} AS {self.sql_type})"

    def fits(self, value: str) -> str:
        """Return the SQL that says whether the type holds a `value`; NULL means no."""
        if self.word == STRING:
            return "true"
        if self.is_number:
            return self._fits_number(value)
        if self.word == "boolean":
            return f"TRY_CAST({value} AS BOOLEAN) IS NOT NULL" if self.is_chosen else _is_boolean(value)
        if self.word == "date":
            return (
                f"length({value}) = 10 AND CAST(TRY_CAST({value} AS DATE) AS VARCHAR) = {value} AND {value} >= '0001'"
            )
        if self.word == "uuid":
            return f"regexp_full_match({value}, '{_UUID}')"
        if self.word == "time":
            return f"regexp_full_match({value}, '{_MINUTE}{_MICROSECONDS}')"
        return self._fits_timestamp(value)

    def glance(self, value: str) -> str:
        """Return the SQL of something quick that is true of all texts that fit an inferred type."""
        if self.word == "boolean":
            return _is_boolean(value)
        if self.is_number:
            return f"{value}[1] IN ({', '.join(map(literal, '-0123456789iIN'))})"
        return f"{value}[5] = '-' AND length({value}) {'= 10' if self.word == 'date' else '> 15'}"

    def facts(self, value: str) -> dict[str, str]:
        """Return what to find out about a column before it gets the type: names and SQL aggregates.

        `fit` counts the texts that fit, `offset` those whose offset is not UTC's, `rounded` those of which digits are lost.
        """
        if self.word == STRING:
            return {}
        facts = {"fit": f"count_if({self.fits(value)})"}
        if self.word.startswith("timestamptz"):
            facts["offset"] = f"count_if({self._has_offset(value)})"
        if self.is_chosen and self.word in {"float", "double"}:
            facts["rounded"] = f"count_if({self._is_rounded(value)})"
        if self.is_inferred and self.word == "double":
            facts |= _describe_numbers(value)
        return facts

    def first(self, fact: str, value: str) -> str:
        """Return the SQL that says whether a text is among those that a fact counts; of `fit`, whether it is not."""
        if fact == "fit":
            return f"NOT coalesce({self.fits(value)}, false)"
        return self._has_offset(value) if fact == "offset" else self._is_rounded(value)

    @property
    def is_number(self) -> bool:
        """Whether spaces around its texts do not count."""
        return self.word in _NUMBERS or self.word.startswith("decimal")

    def _fits_number(self, value: str) -> str:
        number = f"TRY_CAST({value} AS {self.sql_type})"
        back = f"CAST({number} AS VARCHAR)"
        if self.word in {"int", "long"}:
            if self.is_chosen:
                return f"{number} IS NOT NULL AND regexp_full_match({value}, '[+-]?[0-9]+')"
            return f"{back} = {value}"
        named = f"{value} IN ({', '.join(map(literal, _NOT_FINITE))})"
        if self.is_chosen:
            held = f"isfinite({number}) AND ({number} <> 0 OR {_digits(value)} = '')"
            return f"{named} OR (regexp_full_match({value}, '{_ANY_NUMBER}') AND {held})"
        slowly = f"regexp_full_match({value}, '{_NUMBER}') AND {_digits(value)} = {_digits(back)}"
        if self.word.startswith("decimal"):
            return slowly
        return f"CASE WHEN {back} = {value} OR {back} = {value} || '.0' THEN true ELSE {named} OR ({slowly}) END"

    def _is_rounded(self, value: str) -> str:
        return f"{_digits(value)} <> {_digits(f'CAST(TRY_CAST({value} AS {self.sql_type}) AS VARCHAR)')}"

    def _fits_timestamp(self, value: str) -> str:
        has_zone, is_fine = "tz" in self.word, self.word.endswith("_ns")
        time = f"{_MINUTE}{_NANOSECONDS if is_fine else _MICROSECONDS}"
        offset = f"{_OFFSET}{'?' if self.is_chosen else ''}" if has_zone else ""
        pattern = f"{_DAY}[ T]{time}{offset}"
        if not self.is_inferred and not has_zone:
            pattern = f"{_DAY}([ T]{time})?"  # a day is its first moment
        moment = f"TRY_CAST({value} AS {self.sql_type})"
        # these are checked without the pattern, which is slow
        plain, length = (f"{value}[:19]", 20) if has_zone else (value, 19)
        quickly = f"length({value}) = {length} AND replace({plain}, 'T', ' ') = CAST(TRY_CAST({plain} AS TIMESTAMP) AS VARCHAR)"
        if has_zone:
            quickly += f" AND {value}[20] = 'Z'"
        years = f"{moment} >= '0001-01-01' AND {moment} < '10000-01-01'" if not is_fine else f"{moment} IS NOT NULL"
        return f"CASE WHEN {quickly} THEN true ELSE regexp_full_match({value}, '{pattern}') END AND {years}"

    def _has_offset(self, value: str) -> str:
        return f"NOT regexp_matches({value}, '(Z|[+-]00(:?00)?)$')"


@dataclass
class Findings:
    """What was found out about the texts of one column, and what they become."""

    form: Form
    filled: int = 0
    """Texts, those that mean a missing value included."""
    present: int = 0
    """Texts that are a value."""
    facts: dict[str, int] = field(default_factory=dict)

    def add(self, facts: Mapping[str, int]) -> None:
        """Add what was found out about more texts of the column."""
        for name, count in facts.items():
            self.facts[name] = self.facts.get(name, 0) + count

    @property
    def fits(self) -> bool:
        """Whether the type holds all values."""
        if self.form.word == STRING:
            return True
        return self.facts.get("fit", 0) == self.present and (self.present > 0 or not self.form.is_inferred)

    @property
    def is_number_by_its_texts(self) -> bool:
        """Whether the texts are numbers with a point, not names that look like numbers: `12E5`, or 20 digits."""
        facts = self.facts
        has_point = facts["point"] > (1 if facts["point_and_exponent"] else 0) or not facts["exponent"]
        return facts["finite"] > 0 and has_point and (facts["point"] > 0 or facts["finite"] < self.present)

    @property
    def may_share_values(self) -> bool:
        """Whether two of the texts may be one number, such as `1.1` and `1.10`; looking whether they are is slow."""
        facts = self.facts
        if facts["minus_zero"]:
            return True
        is_plain = not facts["other"] and not (facts["whole"] and facts["point_zero"])
        is_even = not facts["exponent"] and facts["fewest_decimals"] == facts["most_decimals"]
        return not is_plain and not is_even


def list_forms(table_type: str | None, chosen: str | None, *, missing: Sequence[str] = MISSING) -> list[Form]:
    """Return the forms to try for a column, in their order.

    Args:
        table_type: the type of the table's column that is appended to.
        chosen: the type that a user chose.
        missing: words that stand for NULL, unless the type is text.

    """
    if chosen is not None:
        return [Form(chosen, is_chosen=True, missing=missing)]
    if table_type is None or not (table_type in SQL_TYPES or _DECIMAL.fullmatch(table_type)):
        return [Form(word, is_inferred=True, missing=missing) for word in INFERRED]
    return [Form(word, missing=missing) for word in (table_type, _WIDER.get(table_type)) if word is not None]


def count_facts(connection: duckdb.DuckDBPyConnection, texts: pa.Array, form: Form) -> dict[str, int]:
    """Return the facts of a form about an array of texts."""
    facts = form.facts(form.value("value"))
    if not facts:
        return {}
    counts = _query(connection, texts, ", ".join(facts.values()))[0]
    return {name: count or 0 for name, count in zip(facts, counts, strict=True)}


def find_first(connection: duckdb.DuckDBPyConnection, texts: pa.Array, form: Form, fact: str) -> int:
    """Return the index of the first text of those that a fact counts; of `fit`, of the first that does not fit."""
    place = f"min(CASE WHEN value IS NOT NULL AND {form.first(fact, form.value('value'))} THEN place END)"
    numbered = pa.table({"value": texts, "place": pa.array(range(len(texts)))})
    return int(connection.from_arrow(numbered).aggregate(place).fetchall()[0][0])


def convert_texts(connection: duckdb.DuckDBPyConnection, texts: pa.Array, form: Form) -> pa.Array:
    """Return the values of an array of texts that all fit."""
    if form.word == STRING:
        return texts
    reader = connection.from_arrow(pa.table({"value": texts})).project(f"{form.convert('value')} AS value")
    column = reader.to_arrow_table()["value"].combine_chunks()
    return as_uuids(column) if form.word == "uuid" else column


def as_uuids(column: pa.Array) -> pa.Array:
    """Return UUIDs, which DuckDB hands out as plain bytes."""
    return pa.ExtensionArray.from_storage(pa.uuid(), column.cast(pa.binary(16)))


def explain_misfit(text: str, name: str, form: Form) -> str:
    """Return the refusal of a text that the type of its column does not hold."""
    message = f"column {name!r}: {text[:_SHOWN]!r} is not {'an' if form.word == 'int' else 'a'} {form.word}"
    if form.is_chosen:
        way_out = (
            "Choose another type for the column (string takes every value), leave it to the file, or correct the value"
        )
        return f"{message}. {way_out}"
    return f"{message}, the type of the table's column. Correct the value, or replace the table instead of appending"


def explain_offsets(count: int, line: int) -> str:
    """Return the warning about times whose offset is not kept."""
    return f"times are stored in UTC. {_count(count)} had another offset or none{_first(line)}"


def explain_rounding(count: int, line: int) -> str:
    """Return the warning about numbers of more digits than the chosen type has."""
    return f"numbers are rounded to the chosen type. {_count(count)} lost digits{_first(line)}"


WARNINGS: Mapping[str, Callable[[int, int], str]] = {"offset": explain_offsets, "rounded": explain_rounding}
"""Facts that are no reason for a refusal, with the warning about so many values, of which the first is on that line."""


def _count(count: int) -> str:
    return "1 value" if count == 1 else f"{count:,} values"


def _first(line: int) -> str:
    return f", first on line {line}" if line else ""


def find_collision(source: str, name: str) -> str:
    """Return the SQL that has a row if two texts of a column of numbers are one number."""
    text = Form("double").value(quote(name))
    return (
        f"SELECT 1 FROM {source} WHERE {text} IS NOT NULL GROUP BY TRY_CAST({text} AS DOUBLE) "
        f"HAVING min({text}) <> max({text}) LIMIT 1"
    )


def _is_boolean(value: str) -> str:
    return f"lower({value}) IN ('true', 'false')"


def _digits(text: str) -> str:
    """Return the SQL of the digits of a number between its first and its last one that is not zero.

    Texts of one number have the same, and two that round to the same number and have the same are one number.
    """
    return f"trim(replace(split_part(lower(ltrim({text}, '+-')), 'e', 1), '.', ''), '0')"


def _describe_numbers(value: str) -> dict[str, str]:
    number = f"TRY_CAST({value} AS DOUBLE)"
    back = f"CAST({number} AS VARCHAR)"
    point, exponent = f"contains({value}, '.')", f"contains(lower({value}), 'e')"
    decimals = f"CASE WHEN {point} THEN length({value}) - instr({value}, '.') ELSE 0 END"
    return {
        "finite": f"count_if(isfinite({number}))",
        "point": f"count_if({point})",
        "exponent": f"count_if({exponent})",
        "point_and_exponent": f"count_if({point} AND {exponent})",
        "whole": f"count_if({back} = {value} || '.0')",
        "point_zero": f"count_if({back} = {value} AND suffix({value}, '.0'))",
        "other": f"count_if({back} <> {value} AND {back} <> {value} || '.0')",
        "minus_zero": f"count_if({number} = 0 AND prefix({value}, '-'))",
        "fewest_decimals": f"min({decimals})",
        "most_decimals": f"max({decimals})",
    }


def _query(connection: duckdb.DuckDBPyConnection, texts: pa.Array, aggregates: str) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = connection.from_arrow(pa.table({"value": texts})).aggregate(aggregates).fetchall()
    return rows
