"""Which Java is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from webapp.runtime import java


def make_java(folder: Path, version: str) -> Path:
    """A program that says its version as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing but what the test makes: JAVA_HOME and the PATH."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'path' / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)
    return tmp_path


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21.0.8", 21)])
def test_java_home_wins_when_it_runs_spark(only: Path, version: str, major: int) -> None:
    program = make_java(only / "home", version)
    make_java(only / "path", "21.0.1")

    found, _seen = java.find_java()

    assert found == java.Java(program, major)


@pytest.mark.parametrize("version", ["25", "11.0.2", "1.8.0_400"])
def test_other_versions_are_passed_over_and_named(only: Path, version: str) -> None:
    bad = make_java(only / "home", version)
    good = make_java(only / "path", "21.0.1")

    found, seen = java.find_java()

    assert found == java.Java(good, 21)
    assert [words for words in seen if words.startswith(str(bad))]


def test_broken_program_is_passed_over(only: Path) -> None:
    program = make_java(only / "home", "17")
    program.write_text("#!/bin/sh\nexit 1\n")
    good = make_java(only / "path", "17.0.1")

    found, seen = java.find_java()

    assert found == java.Java(good, 17)
    assert "not usable" in seen[0]
