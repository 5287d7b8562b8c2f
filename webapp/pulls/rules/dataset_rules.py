"""Review rules per dataset from pipeline.toml: key, ignored columns, tolerance."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DatasetRules:
    """How the rows of one dataset are compared."""

    key: tuple[str, ...] = ()
    """Identifier columns; none means net changes."""
    ignore: tuple[str, ...] = ()
    tolerance: dict[str, float] = field(default_factory=dict)
    """Column → greatest absolute difference that counts as equal."""

    def as_json(self) -> dict[str, Any]:
        return {"key": list(self.key), "ignore": list(self.ignore), "tolerance": dict(sorted(self.tolerance.items()))}

    def describe(self) -> list[str]:
        """Return the rules in words, for pages."""
        found = [f"key {', '.join(self.key)}"] if self.key else []
        found += [f"ignored {', '.join(self.ignore)}"] if self.ignore else []
        found += [f"{name} within ±{limit:g}" for name, limit in sorted(self.tolerance.items())]
        return found


def read_dataset_rules(text: str) -> dict[str, DatasetRules]:
    """Dataset path → rules. A file that does not parse has no rules: publication already names that error."""
    try:
        tables = tomllib.loads(text).get("datasets", {})
    except tomllib.TOMLDecodeError:
        return {}
    if not isinstance(tables, dict):
        return {}
    return {path: _read_one(table) for path, table in tables.items() if isinstance(table, dict)}


def _read_one(table: dict[str, Any]) -> DatasetRules:
    tolerance = table.get("tolerance", {})
    return DatasetRules(
        key=tuple(table.get("key", ())),
        ignore=tuple(table.get("ignore", ())),
        tolerance={name: float(value) for name, value in tolerance.items()} if isinstance(tolerance, dict) else {},
    )
