"""The command line of the Spark server: what it shows, and which archive of classes it takes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from webapp.runtime import spark_classes
from webapp.runtime.health import check_spark
from webapp.runtime.java import Java
from webapp.runtime.spark_folders import find_spark_folder, open_spark_folder
from webapp.runtime.spark_server import SparkServer


@pytest.fixture
def server(tmp_path: Path) -> SparkServer:
    return SparkServer(
        java=tmp_path / "bin" / "java", folder=tmp_path / "spark", port=4711, token="a-secret", secrets=tmp_path
    )


def test_token_is_in_a_file_of_its_own_and_neither_in_the_environment_nor_on_the_command_line(
    server: SparkServer,
) -> None:
    server.prepare()
    [file] = [server.command[n + 1] for n, word in enumerate(server.command) if word == "--input"]
    assert Path(file).read_text() == "spark.connect.authenticate.token a-secret\n"
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert "a-secret" not in server.environment.values()
    assert not [word for word in server.command if "a-secret" in word]
    assert server.remote == "sc://localhost:4711/;token=a-secret"


def test_an_archive_is_shown_to_the_server_but_not_writable(server: SparkServer, tmp_path: Path) -> None:
    archive = tmp_path / "classes" / "one.jsa"
    command = replace(server, archive=archive).command
    assert command[command.index(str(archive.parent)) - 1] == "--readonly"
    assert f"-XX:SharedArchiveFile={archive}" in command
    assert "-XX:+VerifySharedSpaces" in command, "else a server with a damaged one would not start, for ever"
    assert not [word for word in server.command if "SharedArchive" in word]


def test_java_gets_more_options_where_somebody_has_set_them(server: SparkServer) -> None:
    assert "JDK_JAVA_OPTIONS" not in server.environment
    assert replace(server, java_options="-Xss2m").environment["JDK_JAVA_OPTIONS"] == "-Xss2m"


def test_every_folder_of_tables_is_made_and_shown_to_be_opened(server: SparkServer, tmp_path: Path) -> None:
    tables = (tmp_path / "warehouse", tmp_path / "lake")
    started = replace(server, tables=tables)
    started.prepare()
    command = started.command
    roots = [*tables, server.folder / "listings"]
    assert [command[n + 1] for n, word in enumerate(command) if word == "--openable"] == [str(each) for each in roots]
    assert all(each.is_dir() for each in roots)


def test_another_java_and_newer_jars_want_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = tmp_path / "pyspark" / "jars"
    jars.mkdir(parents=True)
    jar = tmp_path / "iceberg.jar"
    jar.touch()
    monkeypatch.setattr(spark_classes, "SPARK_HOME", jars.parent)
    monkeypatch.setattr(spark_classes, "JAR_PATH", jar)

    def find(major: int) -> Path:
        return spark_classes.archive_path(Java(tmp_path / "java", major), with_s3=False)

    first = find(17)
    assert find(17) == first
    assert find(21) != first
    os.utime(jar, ns=(1, 1))
    assert find(17) != first


def test_lists_of_files_are_where_the_server_sees_them_and_end_with_its_run(server: SparkServer, settings: Any) -> None:
    settings.TRIBUTARY_SPARK_FOLDER = ""
    assert find_spark_folder("comparison-1-1") is None
    settings.TRIBUTARY_SPARK_FOLDER = server.client_environment["TRIBUTARY_SPARK_FOLDER"]
    folder = find_spark_folder("comparison-1-1")
    assert folder is not None
    assert folder.is_relative_to(server.folder)
    open_spark_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o777
    server.prepare()
    assert not folder.exists()


def test_a_server_that_starts_anew_for_others_is_no_fault_of_the_installation(
    server: SparkServer, settings: Any
) -> None:
    settings.SPARK_REMOTE, settings.TRIBUTARY_SPARK_OPENER = "sc://localhost:1/;token=none", str(server.opener)
    assert not check_spark().works
    note = Path(f"{server.opener}.renewed")
    note.touch()
    assert check_spark().works
    os.utime(note, (1, 1))
    assert not check_spark().works
