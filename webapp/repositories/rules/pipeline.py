"""What `pipeline.toml` says about the folders that a repository owns, and about columns that not everybody may see."""

from __future__ import annotations

import re
from typing import Any

from jobs.parsing import load_toml
from webapp.accounts.rules.sight import SensitiveRule

_FOLDER = re.compile(r"/?([A-Za-z0-9_-]+)/?\Z")
MAX_BYTES = 200_000


def read_folders(content: bytes) -> tuple[str, ...]:
    """Return the dataset folders that a pipeline file lists; a file that cannot be read lists none."""
    pipeline = (_parse(content) or {}).get("pipeline")
    folders = pipeline.get("folders", []) if isinstance(pipeline, dict) else []
    if not isinstance(folders, list):
        return ()
    matches = (_FOLDER.match(folder) for folder in folders if isinstance(folder, str))
    return tuple(dict.fromkeys(match.group(1) for match in matches if match))


def read_sensitive(content: bytes) -> dict[str, SensitiveRule] | None:
    """Return what a pipeline file calls sensitive, by the paths of datasets; None where it cannot be read.

    What is badly formed is nothing that anybody has taken back: then the whole file cannot be read.
    """
    parsed = _parse(content)
    datasets = parsed.get("datasets", {}) if parsed is not None else None
    if not isinstance(datasets, dict):
        return None
    rules = {}
    for path, table in datasets.items():
        if not isinstance(table, dict):
            return None
        lists = [table.get(name, []) for name in ("sensitive", "sensitive_readers", "sensitive_repositories")]
        if not all(map(_holds_texts, lists)):
            return None
        rules[path] = SensitiveRule(*map(tuple, lists))
    return rules


def _parse(content: bytes) -> dict[str, Any] | None:
    """Parse a pipeline file; None where it is none. Publishing the commit reports a broken file with its line."""
    if len(content) > MAX_BYTES:
        return None
    try:
        return load_toml(content.decode())
    except ValueError:
        return None


def _holds_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
