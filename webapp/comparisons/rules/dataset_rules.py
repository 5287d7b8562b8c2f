"""Review rules per dataset from pipeline.toml: key, ignored columns, tolerance, row filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.parsing import load_toml
from jobs.protocol import fold_column

PIPELINE_FILE = "pipeline.toml"
"""Where a repository keeps the rules of its datasets."""


@dataclass(frozen=True)
class ComparisonRules:
    """How the rows of one dataset are compared."""

    key: tuple[str, ...] = ()
    """Identifier columns; none means net changes."""
    ignore: tuple[str, ...] = ()
    tolerance: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Column → greatest `absolute` difference that counts as equal, or `relative` one (a share of the larger value)."""
    row_filter: str = ""
    """Which rows are compared at both ends, in the words of PyIceberg's filters; empty: all."""

    def as_json(self) -> dict[str, Any]:
        """Return the rules as they are stored, which also names what is compared under them."""
        limits = {column: dict(sorted(limit.items())) for column, limit in sorted(self.tolerance.items())}
        members: dict[str, Any] = {"key": list(self.key), "ignore": list(self.ignore), "tolerance": limits}
        return {**members, "row_filter": self.row_filter} if self.row_filter else members

    def key_of(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the key of a row as pages show it, nested values inside; None where it does not show all of a key."""
        try:
            return {name: _dig(row, name) for name in self.key} or None
        except KeyError:
            return None

    def list_named(self, names: Collection[str]) -> list[str]:
        """Return those of some columns, in any spelling, that the rules name; a column, or a field inside it.

        Names in a filter are looked for as words, even inside texts. An escape may spell any of them.
        """
        listed = {fold_column(name) for name in (*self.key, *self.ignore, *self.tolerance)}
        listed |= {name.partition(".")[0] for name in listed}
        words = fold_column(self.row_filter)
        return [
            name
            for name in names
            if fold_column(name) in listed
            or (words and ("\\" in words or re.search(rf"(?<!\w){re.escape(fold_column(name))}(?!\w)", words)))
        ]

    def describe(self) -> list[str]:
        """Return the rules in words, for pages."""
        words = [f"key {', '.join(self.key)}"] if self.key else []
        words += [f"ignored {', '.join(self.ignore)}"] if self.ignore else []
        words += [f"{column} within {_describe_limit(limit)}" for column, limit in sorted(self.tolerance.items())]
        return [*words, f"only rows with {self.row_filter}"] if self.row_filter else words


def _dig(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column, or of a field inside a struct, all of whose fields are NULL where it is."""
    if name in row:
        return row[name]
    outer = next((column for column in row if name.startswith(f"{column}.")), name)
    if row[outer] is None:
        return None
    if not isinstance(row[outer], Mapping):
        raise KeyError(name)
    return _dig(row[outer], name.removeprefix(f"{outer}."))


def _describe_limit(limit: Mapping[str, float]) -> str:
    words = [f"±{limit['absolute']:g}"] if "absolute" in limit else []
    words += [f"{limit['relative'] * 100:g} %"] if "relative" in limit else []
    return " or ".join(words)


@dataclass(frozen=True)
class CombinedRules:
    """The rules that hold for a dataset of a pull request, and how its branch changes them."""

    rules: ComparisonRules
    changes: tuple[str, ...] = ()
    """A sentence for each rule that the branch changes; none for one that only the target has changed since."""


def combine_rules(
    *, head: Mapping[str, ComparisonRules], target: Mapping[str, ComparisonRules], begin: Mapping[str, ComparisonRules]
) -> dict[str, CombinedRules]:
    """Return the rules to review each dataset by: the target's, and the stricter of both where the branch changes one.

    So neither a branch that is older than a rule nor one that weakens it is reviewed without that rule.

    Args:
        head: the rules at the source's head.
        target: those at the target's head.
        begin: those where the source left the target.

    """
    none = ComparisonRules()
    paths = sorted({*head, *target})
    return {path: _combine(head.get(path, none), target.get(path, none), begin.get(path, none)) for path in paths}


def find_changed(rules: ComparisonRules, *, besides: Collection[ComparisonRules]) -> ComparisonRules:
    """Return those rules that differ from all others, and nothing in place of the rest."""
    changed = {
        name: getattr(rules, name)
        for name in _CHOICES
        if all(getattr(rules, name) != getattr(other, name) for other in besides)
    }
    return ComparisonRules(**changed)


def _combine(head: ComparisonRules, target: ComparisonRules, begin: ComparisonRules) -> CombinedRules:
    held: dict[str, Any] = {}
    changes = []
    for name, choose in _CHOICES.items():
        ours, theirs, old = (getattr(rules, name) for rules in (head, target, begin))
        held[name] = theirs if ours in (old, theirs) else choose(ours, theirs, old)
        if ours not in (old, theirs):
            changes.append(_describe_change(name, ours=ours, theirs=theirs, held=held[name]))
    return CombinedRules(ComparisonRules(**held), tuple(changes))


def _choose_key(ours: tuple[str, ...], theirs: tuple[str, ...], old: tuple[str, ...]) -> tuple[str, ...]:
    """Choose a key. Another one compares no fewer rows; none, or one beside the target's new one, does not count yet."""
    return ours if ours and theirs in ((), old) else theirs


def _choose_ignored(ours: tuple[str, ...], theirs: tuple[str, ...], _old: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(column for column in theirs if column in ours)


def _choose_tolerance(ours: _Limits, theirs: _Limits, _old: _Limits) -> _Limits:
    shared = {column: ours[column].keys() & theirs[column].keys() for column in ours.keys() & theirs.keys()}
    return {
        column: {name: min(ours[column][name], theirs[column][name]) for name in sorted(names)}
        for column, names in sorted(shared.items())
        if names
    }


def _choose_filter(ours: str, theirs: str, _old: str) -> str:
    return f"({theirs}) or ({ours})" if ours and theirs else ""


_Limits = Mapping[str, Mapping[str, float]]
_CHOICES: Mapping[str, Any] = {
    "key": _choose_key,
    "ignore": _choose_ignored,
    "tolerance": _choose_tolerance,
    "row_filter": _choose_filter,
}
_WORDS = {"key": "Key", "ignore": "Ignored columns", "tolerance": "Tolerance", "row_filter": "Rows compared"}


def _describe_change(name: str, *, ours: Any, theirs: Any, held: Any) -> str:
    here = "used here" if held == ours else f"not before the merge; here: {_describe_value(name, held)}"
    return f"{_WORDS[name]}: {_describe_value(name, theirs)} → {_describe_value(name, ours)} ({here})"


def _describe_value(name: str, value: Any) -> str:
    if name == "tolerance":
        value = [f"{column} within {_describe_limit(limit)}" for column, limit in sorted(value.items())]
    text = value if isinstance(value, str) else ", ".join(value)
    return text or ("all" if name == "row_filter" else "none")


def read_dataset_rules(text: str) -> dict[str, ComparisonRules]:
    """Read the rules of each dataset. A file that does not parse has none: publication already names that error."""
    try:
        tables = load_toml(text).get("datasets", {})
    except ValueError:
        return {}
    if not isinstance(tables, dict):
        return {}
    return {path: _read_one(table) for path, table in tables.items() if isinstance(table, dict)}


def rules_from_json(stored: Mapping[str, Any]) -> ComparisonRules:
    """Return rules as they were stored."""
    return ComparisonRules(
        key=tuple(stored.get("key", ())),
        ignore=tuple(stored.get("ignore", ())),
        tolerance=_read_tolerance(stored.get("tolerance")),
        row_filter=str(stored.get("row_filter", "")),
    )


def _read_one(table: dict[str, Any]) -> ComparisonRules:
    """Read what is well formed: publication names the rest, and the last good commit is what gets built."""
    chosen = table.get("filter", "")
    return ComparisonRules(
        key=_read_texts(table.get("key")),
        ignore=_read_texts(table.get("ignore")),
        tolerance=_read_tolerance(table.get("tolerance")),
        row_filter=chosen.strip() if isinstance(chosen, str) else "",
    )


def _read_texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _read_tolerance(value: Any) -> dict[str, dict[str, float]]:
    if not isinstance(value, dict):
        return {}
    tolerance = {}
    for column, limit in value.items():
        limits = limit if isinstance(limit, dict) else {"absolute": limit}
        numbers = {
            name: float(number)
            for name, number in limits.items()
            if name in ("absolute", "relative") and isinstance(number, int | float) and not isinstance(number, bool)
        }
        if numbers:
            tolerance[column] = numbers
    return tolerance
