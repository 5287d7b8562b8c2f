"""What somebody asks of a stored row diff, as SQL over its file: kinds of change, a column, a search, an order."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from webapp.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webapp.pulls.diffs.artifact import Artifact, Column

CHANGES = ("inserted", "deleted", "updated")
_MAX_QUERY = 1_000
_TERM = re.compile(
    r"""\s*(?:(?P<name>"(?:[^"]|"")+"|[^\s=<>"']+)\s*=\s*)(?P<value>"(?:[^"]|"")*"|'(?:[^']|'')*'|\S+)"""
)


@dataclass(frozen=True)
class Asked:
    """A parsed request: SQL conditions with their parameters, the order, and a name for cursors."""

    conditions: tuple[str, ...]
    parameters: tuple[Any, ...]
    order: str | None
    digest: str

    @property
    def where(self) -> str:
        """One SQL condition."""
        return " AND ".join(self.conditions) or "true"

    @classmethod
    def parse(
        cls, artifact: Artifact, *, change: Iterable[str], column: str | None, q: str | None, sort: str | None
    ) -> Asked:
        """Read what was asked.

        Raises:
            BadRequest: a kind, column or order that is not there.

        """
        kinds = sorted({kind.strip() for kind in change if kind.strip()})
        unknown = [kind for kind in kinds if kind not in CHANGES]
        if unknown:
            raise BadRequest(f"change: {unknown[0]!r} is none of {', '.join(CHANGES)}.", errors={"change": unknown})
        conditions: list[str] = []
        parameters: list[Any] = []
        if kinds and len(kinds) < len(CHANGES):
            conditions.append(f"change IN ({', '.join('?' for _ in kinds)})")
            parameters += kinds
        if column:
            conditions.append("list_contains(changed, ?)")
            parameters.append(_named(artifact, column, "column").index)
        if q and q.strip():
            found = _search(artifact, q.strip())
            conditions += found[0]
            parameters += found[1]
        text = json.dumps([kinds, column or "", (q or "").strip(), sort or ""])
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return cls(tuple(conditions), tuple(parameters), _order(artifact, sort), digest)


def _named(artifact: Artifact, name: str, field_name: str) -> Column:
    known = (*artifact.columns, *artifact.inside)
    for column in known:
        if name in {column.name, column.after_name}:
            return column
    for column in known:
        if name == column.before_name:
            return column
    raise BadRequest(f"{field_name}: there is no column {name!r}.", errors={field_name: [f"No column {name!r}."]})


def _order(artifact: Artifact, sort: str | None) -> str | None:
    if not sort or not sort.strip():
        return None
    name, descending = sort.strip().removeprefix("-"), sort.strip().startswith("-")
    direction = "DESC" if descending else "ASC"
    if name == "change":
        return f"change {direction}, n"
    column = _named(artifact, name, "sort")
    values = [value for _, value in _sides(artifact, column)]
    if not values:
        raise BadRequest(f"sort: the values of {name!r} are not stored.", errors={"sort": [name]})
    newest_first = values[::-1]
    if len({artifact.types[value] for value in values}) == 1:
        newest_first = [f"coalesce({', '.join(newest_first)})"]
    keys = [f"{value} {direction} NULLS LAST" for value in newest_first]
    return ", ".join([*keys, "n"])


def _sides(artifact: Artifact, column: Column) -> list[tuple[Literal["a", "b"], str]]:
    """SQL of the stored values of one column, before first."""
    sides: tuple[Literal["a", "b"], ...] = ("b", "a")
    return [(side, value) for side in sides if (value := column.stored(side)) in artifact.types]


def _search(artifact: Artifact, q: str) -> tuple[list[str], list[Any]]:
    if len(q) > _MAX_QUERY:
        raise BadRequest(f"q: at most {_MAX_QUERY} characters.", errors={"q": ["Too long."]})
    terms = _terms(q)
    if terms is None:
        return _search_anywhere(artifact, _unquote(q))
    conditions: list[str] = []
    parameters: list[Any] = []
    for name, value in terms:
        column = _named(artifact, _unquote(name), "q")
        tests = []
        for side, stored in _sides(artifact, column):
            test, given = _equals(side, stored, artifact.types[stored], value)
            tests.append(test)
            parameters += given
        conditions.append("(" + (" OR ".join(tests) or "false") + ")")
    return conditions, parameters


def _terms(q: str) -> list[tuple[str, str]] | None:
    """`a = 1 b="x y"` as pairs; None for a bare value."""
    found, position = [], 0
    while position < len(q):
        match = _TERM.match(q, position)
        if match is None:
            return None
        found.append((match["name"], match["value"]))
        position = match.end()
        while position < len(q) and q[position] in " ,":
            position += 1
    return found


def _unquote(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1].replace(text[0] * 2, text[0])
    return text


def _equals(side: Literal["a", "b"], name: str, type_: str, value: str) -> tuple[str, list[Any]]:
    """SQL that is true where a stored value is the one that was typed."""
    plain = _unquote(value)
    is_null = value.lower() == "null"
    if type_ == "VARCHAR":
        test, given = f"{name} = ?", [plain]
    elif type_ == "BLOB":
        test, given = f"to_base64({name}) = ?", [plain]
    elif type_.startswith(("STRUCT", "MAP")) or type_.endswith("]"):
        test, given = f"CAST(to_json({name}) AS VARCHAR) = ?", [plain]
    else:
        test, given = f"{name} IS NOT DISTINCT FROM TRY_CAST(? AS {type_}) AND {name} IS NOT NULL", [plain]
    if is_null:
        # a side that does not exist is no NULL
        lacking = "inserted" if side == "b" else "deleted"
        return f"({test} OR ({name} IS NULL AND change <> '{lacking}'))", given
    return f"({test})", given


def _search_anywhere(artifact: Artifact, value: str) -> tuple[list[str], list[Any]]:
    """A bare value: in any key column, or without a key in any column; inside a text also as a part."""
    keyed = artifact.mode == "identifier"
    chosen = artifact.key_columns if keyed else artifact.columns
    tests: list[str] = []
    parameters: list[Any] = []
    for column in chosen:
        for side, stored in _sides(artifact, column):
            if artifact.types[stored] == "VARCHAR":
                tests.append(f"contains(lower({stored}), lower(?))")
                parameters.append(value)
                continue
            test, given = _equals(side, stored, artifact.types[stored], value)
            tests.append(test)
            parameters += given
    return ["(" + (" OR ".join(tests) or "false") + ")"], parameters
