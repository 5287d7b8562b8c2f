"""What `pipeline.toml` says about the folders that a repository owns."""

from __future__ import annotations

import re
import tomllib
from typing import Any

_FOLDER = re.compile(r"/?([A-Za-z0-9_-]+)/?\Z")
MAX_BYTES = 200_000


def read_folders(content: bytes) -> tuple[str, ...]:
    """Return the dataset folders that a pipeline file lists; a file that cannot be read lists none."""
    if len(content) > MAX_BYTES:
        return ()
    try:
        parsed: dict[str, Any] = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        # Publishing the commit reports the broken file with its line; here it only owns nothing.
        return ()
    pipeline = parsed.get("pipeline")
    folders = pipeline.get("folders", []) if isinstance(pipeline, dict) else []
    if not isinstance(folders, list):
        return ()
    matches = (_FOLDER.match(folder) for folder in folders if isinstance(folder, str))
    return tuple(dict.fromkeys(match.group(1) for match in matches if match))
