"""The text that a cell of a row diff shows, as SQL of the stored value: what a reader copies from a page is found."""

from __future__ import annotations

import re

_NAME = re.compile(r'"(?:[^"]|"")*"|[^\s",()]+')


def shown_text(value: str, type_: str, depth: int = 0) -> str:
    """Return SQL of the text that a page shows of a value of a DuckDB type; NULL stays NULL."""
    if type_.endswith("]"):
        return _shown_list(value, type_[: type_.rindex("[")], depth)
    if type_.startswith("MAP("):
        kinds = _split(_inside(type_))
        key, item = (
            _inner(f"e{depth}.{part}", kind, depth) for part, kind in zip(("key", "value"), kinds, strict=True)
        )
        entries = f"list_transform(map_entries({value}), lambda e{depth}: '[' || {key} || ', ' || {item} || ']')"
        return f"'[' || array_to_string({entries}, ', ') || ']'"
    if type_.startswith("STRUCT("):
        return _shown_struct(value, _inside(type_), depth)
    if type_ in ("FLOAT", "DOUBLE"):
        return (
            f"CASE WHEN isfinite({value}) THEN CAST(CAST({value} AS DOUBLE) AS VARCHAR) WHEN isnan({value}) THEN 'NaN' "
            f"WHEN {value} > 0 THEN 'Infinity' WHEN {value} < 0 THEN '-Infinity' END"
        )
    if type_ == "BLOB":
        return f"to_base64({value})"
    text = f"CAST({value} AS VARCHAR)"
    if type_.startswith("DECIMAL"):
        return rf"regexp_replace({text}, '^(-?)\.', '\10.')"
    if type_ == "TIME":
        return _with_microseconds(text)
    if type_.startswith("TIMESTAMP"):
        return _shown_moment(value, type_)
    return text


def _inner(value: str, type_: str, depth: int) -> str:
    """Return the text of a part of a value, which is never NULL."""
    text = (
        f"CASE WHEN {value} THEN 'True' ELSE 'False' END" if type_ == "BOOLEAN" else shown_text(value, type_, depth + 1)
    )
    return f"CASE WHEN {value} IS NULL THEN 'null' ELSE {text} END"


def _shown_list(value: str, element: str, depth: int) -> str:
    items = f"list_transform({value}, lambda e{depth}: {_inner(f'e{depth}', element, depth)})"
    return f"'[' || array_to_string({items}, ', ') || ']'"


def _shown_struct(value: str, fields: str, depth: int) -> str:
    parts = []
    for field in _split(fields):
        match = _NAME.match(field)
        assert match is not None  # noqa: S101 - DuckDB names each field
        name = match[0][1:-1].replace('""', '"') if match[0].startswith('"') else match[0]
        literal = name.replace("'", "''")
        inner = _inner(f"struct_extract({value}, '{literal}')", field[match.end() :].strip(), depth)
        parts.append(f"'{literal}: ' || {inner}")
    joined = " || ', ' || ".join(parts)
    return f"CASE WHEN {value} IS NOT NULL THEN '{{' || {joined} || '}}' END"


def _shown_moment(value: str, type_: str) -> str:
    """Return ISO 8601, with the digits that Python writes: none or six; of nanoseconds as many as there are."""
    has_zone = "ZONE" in type_ or "TZ" in type_
    text = f"replace(CAST({value} AS VARCHAR), ' ', 'T')"
    if has_zone:
        text = rf"regexp_replace({text}, '\+00$', '')"
    if not type_.startswith("TIMESTAMP_NS") and not type_.startswith("TIMESTAMPTZ_NS"):
        text = _with_microseconds(text)
    return f"{text} || '+00:00'" if has_zone else text


def _with_microseconds(text: str) -> str:
    return f"CASE WHEN contains({text}, '.') THEN rpad({text}, CAST(strlen(split_part({text}, '.', 1)) + 7 AS INTEGER), '0') ELSE {text} END"


def _inside(type_: str) -> str:
    return type_[type_.index("(") + 1 : type_.rindex(")")]


def _split(text: str) -> list[str]:
    """Split the parts of a type at the commas between them."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for place, sign in enumerate(text):
        if sign == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth == 0:
                parts.append(text[start:place].strip())
                start = place + 1
    return [*parts, text[start:].strip()]
