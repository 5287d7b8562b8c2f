"""What ruff says of a text of Python. It runs in the sandbox of whoever asks, gets the text by a pipe, and sees no file."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from ruff import find_ruff_bin

RULES = "E4,E7,E9,F,B"
"""What ruff checks by itself, and likely bugs; nothing about style, on which repositories differ."""
MOST_PROBLEMS = 200
SECONDS = 8.0


def lint(path: str, text: str) -> list[dict[str, Any]]:
    """Return the problems of a text, by line.

    Lines and columns count from 1; an end is the character behind the last one.

    Raises:
        ValueError: ruff gave no answer.

    """
    options = ["--isolated", "--no-cache", "--quiet", "--output-format", "json", "--select", RULES]
    command = [find_ruff_bin(), "check", *options, "--stdin-filename", path, "-"]
    result = subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=SECONDS, check=False, cwd="/", env={}
    )
    problems = json.loads(result.stdout)
    return [
        {
            "code": problem["code"] or "",
            "message": problem["message"],
            "line": problem["location"]["row"],
            "column": problem["location"]["column"],
            "end_line": problem["end_location"]["row"],
            "end_column": problem["end_location"]["column"],
        }
        for problem in problems[:MOST_PROBLEMS]
    ]
