"""Reading pipeline.toml: packages with transforms, folders of datasets, review rules, owners, types of seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyiceberg.expressions.parser import parse
from pyparsing import ParseException

from jobs.engine.read.text_forms import CHOICES
from jobs.parsing import load_toml
from jobs.protocol import CodeError, DatasetRules

FILE = "pipeline.toml"
_PATH = re.compile(r"(/[A-Za-z0-9_-]+){2,}")
_FOLDER = re.compile(r"/?[A-Za-z0-9_-]+/?")
_PLACE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")
_TABLES = ("pipeline", "datasets", "owners", "seeds")
_HEAD = r"\[pipeline\]"
_KNOWN = ("key", "ignore", "tolerance", "filter", "sensitive", "sensitive_readers", "sensitive_repositories")
_LIMITS = ("absolute", "relative")
_OWNER = re.compile(r"(group:)?\S(.*\S)?")


@dataclass(frozen=True)
class Pipeline:
    """What the file says; where it is absent, the defaults."""

    packages: tuple[str, ...] = ("pipelines",)
    folders: tuple[str, ...] = ()
    datasets: tuple[DatasetRules, ...] = ()
    seed_types: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dataset of a seed → column → Iceberg type."""


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self.errors: list[CodeError] = []

    def complain(self, message: str, *hints: str) -> None:
        """Report at the first line that matches the innermost hint after those before it."""
        line = 0
        for hint in hints:
            matched_line = next((n for n in range(line, len(self._lines)) if re.search(hint, self._lines[n])), None)
            line = line if matched_line is None else matched_line
        self.errors.append(CodeError(FILE, line + 1, message))

    def texts(self, table: dict[str, Any], name: str, where: str, *hints: str) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
            self.complain(f"{where}: {name} must be a list of texts", *hints, name)
            return ()
        return tuple(dict.fromkeys(value))

    def table(self, parsed: dict[str, Any], name: str) -> dict[str, Any]:
        table = parsed.get(name, {})
        if isinstance(table, dict):
            return table
        self.complain(f"[{name}] must be a table", name)
        return {}

    def seed_types(self, path: str, table: Any) -> dict[str, str]:
        where, hint = f'[seeds."{path}"]', rf"""["']{re.escape(path)}["']"""
        types = table.get("types") if isinstance(table, dict) else None
        if not isinstance(types, dict) or set(table) != {"types"}:
            self.complain(f'{where} gives the types of columns alone: types = {{ code = "string" }}', hint)
            return {}
        for column, type_ in types.items():
            if type_ not in CHOICES:
                message = f"{where}: type of {column!r} must be one of {', '.join(CHOICES)}"
                self.complain(message, hint, rf"{re.escape(column)}[\"']?\s*=")
        return types

    def check_owners(self, pattern: str, names: Any) -> None:
        """Complain of owners that are no names; which of them there are is known only outside the sandbox."""
        where, hint = f'[owners]: "{pattern}"', re.escape(pattern)
        if not pattern.strip():
            self.complain(
                "[owners]: a pattern is empty; one looks like '/nyc/delays/*' or 'pipelines/*.py'", r"\[owners\]"
            )
        elif not isinstance(names, list) or not names or not all(map(_is_owner, names)):
            self.complain(f'{where} must list names, such as ["mira", "group:finance"]', r"\[owners\]", hint)

    def rules(self, path: str, table: Any) -> DatasetRules | None:
        where, hint = f'[datasets."{path}"]', rf"""["']{re.escape(path)}["']"""
        if not _PATH.fullmatch(path):
            self.complain(f"{where}: this is no dataset path; one looks like '/nyc/delays/daily'", hint)
            return None
        if not isinstance(table, dict):
            self.complain(f"{where} must be a table", hint)
            return None
        for name in table:
            if name not in _KNOWN:
                self.complain(f"{where}: unknown rule {name!r}; there are {', '.join(_KNOWN)}", hint, re.escape(name))
        rules = DatasetRules(
            path=path,
            key=self.texts(table, "key", where, hint),
            ignore=self.texts(table, "ignore", where, hint),
            tolerance=self._tolerance(table.get("tolerance", {}), where, hint),
            row_filter=self._filter(table.get("filter"), where, hint),
        )
        # These are read by the web, which shows rows; here they are only checked.
        sensitive = self.texts(table, "sensitive", where, hint)
        for name in ("sensitive_readers", "sensitive_repositories"):
            if self.texts(table, name, where, hint) and not sensitive:
                self.complain(f"{where}: {name} without sensitive columns", hint, name)
        for name in rules.key:
            if name in rules.ignore or name in rules.tolerance:
                rule = "ignore" if name in rules.ignore else "tolerance"
                self.complain(
                    f"{where}: column {name!r} is in key and in {rule}; a key is matched as it is", hint, rule
                )
        return rules

    def _tolerance(self, value: Any, where: str, hint: str) -> dict[str, dict[str, float]]:
        """Read limits by column, absolute and relative; a bare number is absolute."""
        if not isinstance(value, dict):
            self.complain(f"{where}: tolerance must give a number or a table for each column", hint, "tolerance")
            return {}
        tolerances = {}
        for column, limit in value.items():
            limits = limit if isinstance(limit, dict) else {"absolute": limit}
            problem = _explain_limits(limits)
            if problem:
                self.complain(
                    f"{where}: tolerance of {column!r} {problem}", hint, "tolerance", rf"{re.escape(column)}[\"']?\s*="
                )
            else:
                tolerances[column] = {name: float(number) for name, number in limits.items()}
        return tolerances

    def _filter(self, value: Any, where: str, hint: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            self.complain(f"{where}: filter must be a text such as \"origin = 'JFK' and delay > 60\"", hint, "filter")
            return None
        try:
            parse(value)
        except (ParseException, ValueError) as error:
            place = f" at character {error.column}" if isinstance(error, ParseException) else f": {error}"
            example = "one looks like \"origin = 'JFK' and delay > 60\""
            self.complain(f"{where}: filter {value!r} cannot be read{place}; {example}", hint, "filter")
            return None
        return value.strip()


def _is_owner(name: Any) -> bool:
    return isinstance(name, str) and _OWNER.fullmatch(name) is not None and name != "group:"


def _explain_limits(limits: dict[str, Any]) -> str:
    """Return what is wrong with the limits of one column; empty where nothing is."""
    unknown = [name for name in limits if name not in _LIMITS]
    if unknown:
        return f"names {unknown[0]!r}; there are {' and '.join(_LIMITS)}"
    if not limits:
        return f"is empty; give a number, or {' or '.join(_LIMITS)}"
    is_good = all(
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf
        for value in limits.values()
    )
    return "" if is_good else "must be a number of at least 0"


def read_pipeline(root: Path) -> tuple[Pipeline, list[CodeError]]:
    """Read the file of a repository; errors carry its line."""
    path = root / FILE
    if not path.is_file():
        return Pipeline(), []
    try:
        text = path.read_text(encoding="utf-8")
        parsed = load_toml(text)
    except UnicodeDecodeError:
        return Pipeline(), [CodeError(FILE, 1, "the file is not UTF-8 text")]
    except ValueError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else len(text.splitlines())
        return Pipeline(), [CodeError(FILE, line, _PLACE.sub("", str(error)))]
    reader = _Reader(text)
    return _read(parsed, reader), reader.errors


def _read(parsed: dict[str, Any], reader: _Reader) -> Pipeline:
    for name in parsed:
        if name not in _TABLES:
            tables = ", ".join(f"[{table}]" for table in _TABLES)
            reader.complain(f"unknown table [{name}]; there are {tables}", re.escape(name))
    pipeline = reader.table(parsed, "pipeline")
    for name in pipeline:
        if name not in ("packages", "folders"):
            reader.complain(f"[pipeline]: unknown key {name!r}; there are packages and folders", _HEAD, re.escape(name))
    packages = reader.texts(pipeline, "packages", "[pipeline]", _HEAD) or Pipeline.packages
    folders = reader.texts(pipeline, "folders", "[pipeline]", _HEAD)
    for folder in folders:
        if not _FOLDER.fullmatch(folder):
            reader.complain(f"[pipeline]: {folder!r} is no folder; one looks like '/nyc'", _HEAD, re.escape(folder))
    rules = [reader.rules(path, table) for path, table in reader.table(parsed, "datasets").items()]
    for pattern, names in reader.table(parsed, "owners").items():
        reader.check_owners(pattern, names)
    types = {path: reader.seed_types(path, table) for path, table in reader.table(parsed, "seeds").items()}
    return Pipeline(packages, folders, tuple(rule for rule in rules if rule is not None), types)
