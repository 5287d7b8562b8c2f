"""Somebody who types the blocks of the guide one after the other, and looks at what they print.

A number in the comment behind a line is what the line prints: `print(…)  # 3: why`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "webapp" / "site" / "guide"
ADDRESS = "localhost:8000"
CLIENTS = ROOT / ".venv" / "clients"
"""The packages of unmodified clients, which `make .venv/.clients` installs."""
DUCKDB = """
import duckdb, importlib, os, pathlib, re, tempfile

def connect():
    db = duckdb.connect(config={"extension_directory": tempfile.mkdtemp(), "allow_unsigned_extensions": "true"})
    # DuckDB would load its extensions from a server of its own: here they come from wheels.
    for name in ("avro", "httpfs", "iceberg"):
        folder = pathlib.Path(importlib.import_module(f"duckdb_extension_{name}").__path__[0])
        db.execute(f"INSTALL '{next(folder.rglob('*.duckdb_extension'))}'; LOAD {name}")
    return db

def run(source):
    db = connect()
    for statement in re.sub("--.*", "", source).split(";"):
        text = statement.strip()
        if text and not text.startswith(("INSTALL", "LOAD")):
            rows = db.execute(text.replace("<your token>", os.environ["TRIBUTARY_TOKEN"])).fetchall()
            if text.startswith("SELECT"):
                print(rows[0][0])
"""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAID = re.compile(r"(?:#|--) (\d[\d.]*)(?::.*)?$", re.MULTILINE)


def list_documents() -> dict[str, str]:
    """The README and every chapter of the guide, by its path."""
    paths = [ROOT / "README.md", *sorted(GUIDE.glob("*.md"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def read_chapter(name: str, section: str = "") -> str:
    """Return a chapter of the guide, or one of its sections."""
    text = (GUIDE / f"{name}.md").read_text()
    return re.split(r"^## ", text.split(f"\n## {section}\n")[1], flags=re.MULTILINE)[0] if section else text


def list_blocks(text: str) -> list[tuple[str, str]]:
    """Return language and content of every block of code."""
    return BLOCK.findall(text)


class Reader:
    """Runs blocks against an installation; what one block has set is there for the next."""

    def __init__(self, url: str, *, folder: Path | None = None, **environment: str) -> None:
        self.address = urlsplit(url).netloc
        self.folder = folder
        self.names: dict[str, Any] = {}
        self.environment = {**os.environ, "TRIBUTARY_TOKEN": "", **environment}

    def read(self, text: str) -> list[str]:
        """Run all blocks of a text, check what they print, and return their languages."""
        blocks = list_blocks(text)
        for language, block in blocks:
            source = block.replace(ADDRESS, self.address)
            run = {"sh": self._run_shell, "python": self._run_python, "sql": self._run_sql, "duckdb": self.run_duckdb}
            printed = run[language](source)
            assert printed == SAID.findall(block), block
        return [language for language, _ in blocks]

    def _run_shell(self, source: str) -> list[str]:
        command = ["bash", "-euo", "pipefail", "-c", f'{source}\necho "token=$TRIBUTARY_TOKEN"']
        ended = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        *lines, last = ended.stdout.splitlines()
        self.environment["TRIBUTARY_TOKEN"] = last.removeprefix("token=")
        return lines

    def _run_python(self, source: str) -> list[str]:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRIBUTARY_TOKEN", self.environment["TRIBUTARY_TOKEN"])
            exec(compile(source, "guide", "exec"), self.names)  # noqa: S102 - our own guide
        return printed.getvalue().splitlines()

    def run_duckdb(self, source: str) -> list[str]:
        """Run SQL in the client's own version of DuckDB, and return the first value of each query."""
        return self.run_client(f"{DUCKDB}\nrun({source!r})")

    def run_client(self, program: str) -> list[str]:
        """Run a program beside the packages of clients, and return the lines that it prints."""
        environment = {**self.environment, "PYTHONPATH": str(CLIENTS)}
        ended = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    def _run_sql(self, source: str) -> list[str]:
        statements = [line.split("--")[0].strip().rstrip(";") for line in source.splitlines()]
        answers = [self.names["spark"].sql(statement).collect() for statement in statements if statement]
        return [str(rows[0][0]) for rows in answers if rows]
