"""Somebody who types the blocks of README one after the other, and looks at what they print.

A number in the comment behind a line is what the line prints: `print(…)  # 3: why`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ADDRESS = "http://localhost:8000"
BLOCK = re.compile(r"^```(sh|python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"(?:#|--) (\d[\d.]*)(?::.*)?$", re.MULTILINE)


def read_section(title: str) -> str:
    """Return a section of README up to the next heading."""
    text = (Path(__file__).parents[2] / "README.md").read_text()
    _, section = text.split(f"# {title}\n")
    return re.split(r"^##", section, flags=re.MULTILINE)[0]


class Reader:
    """Runs blocks against an installation; what one block has set is there for the next."""

    def __init__(self, url: str, **environment: str) -> None:
        self.url = url
        self.names: dict[str, Any] = {}
        self.environment = {**os.environ, "TRIBUTARY_TOKEN": "", **environment}

    def read(self, section: str) -> list[str]:
        """Run all blocks of a section, check what they print, and return their languages."""
        blocks = BLOCK.findall(section)
        for language, block in blocks:
            source = block.replace(ADDRESS, self.url)
            printed = {"sh": self._run_shell, "python": self._run_python, "sql": self._run_sql}[language](source)
            assert printed == SAID.findall(block), block
        return [language for language, _ in blocks]

    def _run_shell(self, source: str) -> list[str]:
        command = ["bash", "-euo", "pipefail", "-c", f'{source}\necho "token=$TRIBUTARY_TOKEN"']
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=120)
        assert ended.returncode == 0, ended.stderr
        *lines, last = ended.stdout.splitlines()
        self.environment["TRIBUTARY_TOKEN"] = last.removeprefix("token=")
        return lines

    def _run_python(self, source: str) -> list[str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRIBUTARY_TOKEN", self.environment["TRIBUTARY_TOKEN"])
            exec(compile(source, "README.md", "exec"), self.names)  # noqa: S102 - our own README
        return printed.getvalue().splitlines()

    def _run_sql(self, source: str) -> list[str]:
        statements = [line.split("--")[0].strip().rstrip(";") for line in source.splitlines()]
        answers = [self.names["spark"].sql(statement).collect() for statement in statements if statement]
        return [str(rows[0][0]) for rows in answers if rows]
