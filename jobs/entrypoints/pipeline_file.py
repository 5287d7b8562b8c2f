"""Reading pipeline.toml: the packages with transforms, the dataset folders, the review rules."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.protocol import CodeError, DatasetRules

FILE = "pipeline.toml"
_PATH = re.compile(r"(/[A-Za-z0-9_-]+){2,}")
_FOLDER = re.compile(r"/?[A-Za-z0-9_-]+/?")
_PLACE = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")
_HEAD = r"\[pipeline\]"
_KNOWN = ("key", "ignore", "tolerance")


@dataclass(frozen=True)
class Pipeline:
    """What the file says; where it is absent, the defaults."""

    packages: tuple[str, ...] = ("pipelines",)
    folders: tuple[str, ...] = ()
    datasets: tuple[DatasetRules, ...] = ()


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self.errors: list[CodeError] = []

    def complain(self, message: str, *hints: str) -> None:
        """Report at the first line that matches the innermost hint after those before it."""
        line = 0
        for hint in hints:
            found = next((n for n in range(line, len(self._lines)) if re.search(hint, self._lines[n])), None)
            line = line if found is None else found
        self.errors.append(CodeError(FILE, line + 1, message))

    def texts(self, table: dict[str, Any], name: str, where: str, *hints: str) -> tuple[str, ...]:
        value = table.get(name, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            self.complain(f"{where}: {name} must be a list of texts", *hints, name)
            return ()
        return tuple(dict.fromkeys(value))

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
        tolerance = table.get("tolerance", {})
        if not isinstance(tolerance, dict) or not all(_is_tolerance(value) for value in tolerance.values()):
            self.complain(f"{where}: tolerance must give a number of at least 0 for each column", hint, "tolerance")
            tolerance = {}
        return DatasetRules(
            path=path,
            key=self.texts(table, "key", where, hint),
            ignore=self.texts(table, "ignore", where, hint),
            tolerance={name: float(value) for name, value in tolerance.items()},
        )


def _is_tolerance(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def read_pipeline(root: Path) -> tuple[Pipeline, list[CodeError]]:
    """Read the file of a repository; errors carry its line."""
    path = root / FILE
    if not path.is_file():
        return Pipeline(), []
    try:
        text = path.read_text(encoding="utf-8")
        parsed = tomllib.loads(text)
    except UnicodeDecodeError:
        return Pipeline(), [CodeError(FILE, 1, "the file is not UTF-8 text")]
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        line = int(place[1]) if place and place[1] else len(text.splitlines())
        return Pipeline(), [CodeError(FILE, line, _PLACE.sub("", str(error)))]
    reader = _Reader(text)
    return _read(parsed, reader), reader.errors


def _read(parsed: dict[str, Any], reader: _Reader) -> Pipeline:
    for name in parsed:
        if name not in ("pipeline", "datasets"):
            reader.complain(f"unknown table [{name}]; there are [pipeline] and [datasets]", re.escape(name))
    pipeline = parsed.get("pipeline", {})
    if not isinstance(pipeline, dict):
        reader.complain("[pipeline] must be a table", "pipeline")
        pipeline = {}
    for name in pipeline:
        if name not in ("packages", "folders"):
            reader.complain(f"[pipeline]: unknown key {name!r}; there are packages and folders", _HEAD, re.escape(name))
    packages = reader.texts(pipeline, "packages", "[pipeline]", _HEAD) or Pipeline.packages
    folders = reader.texts(pipeline, "folders", "[pipeline]", _HEAD)
    for folder in folders:
        if not _FOLDER.fullmatch(folder):
            reader.complain(f"[pipeline]: {folder!r} is no folder; one looks like '/nyc'", _HEAD, re.escape(folder))
    datasets = parsed.get("datasets", {})
    if not isinstance(datasets, dict):
        reader.complain("[datasets] must be a table", "datasets")
        datasets = {}
    rules = [reader.rules(path, table) for path, table in datasets.items()]
    return Pipeline(packages, folders, tuple(rule for rule in rules if rule is not None))
