"""Trailers are read as Git reads them, and each co-author is named once."""

from __future__ import annotations

import subprocess

import pytest

from webapp.git.trailers import Trailer, add_trailers, name_co_author, read_trailers
from webapp.git.values import Person

MESSAGES = [
    "Subject",
    "Key: value",
    "Subject\n\nKey: value",
    "Subject\n\nText\n\nCo-authored-by: A <a@b.c>\nSigned-off-by: B <b@b.c>\n",
    "Subject\n\nText: with a colon\nand more",
    "Subject\n\nText\nSigned-off-by: B <b@b.c>\nanother line\n",
    "Subject\n\na\nb\nc\nd\nSigned-off-by: B <b@b.c>\n",
    "Subject\n\nA: b\n  goes on\nC : d\n",
    "Subject\n\nA: b\n\nNo trailer\n",
    "Subject\r\n\r\nA: b\r\nC: d\r\n",
    "Subject\n\nChange-Id: x\n(cherry picked from commit abc)\n",
    "Subject\n \nA: b",
    "Subject\n\nhttp://x.y\n\nCloses: #1\n\n\n",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_trailers_are_those_that_git_reads(message: str) -> None:
    done = subprocess.run(
        ["git", "interpret-trailers", "--parse"], input=message.encode(), capture_output=True, check=True
    )
    lines = [line for line in done.stdout.decode().splitlines() if not line.startswith("(")]
    assert [f"{key}: {value}" for key, value in read_trailers(message)] == lines


def test_trailers_are_added_once() -> None:
    olek = name_co_author(Person(name="Olek", email="Olek@example.org"))
    again = Trailer("co-authored-by", "O. Nowak <olek@example.org>")
    signed = Trailer("Signed-off-by", "Olek <olek@example.org>")
    assert add_trailers("Subject\n", []) == "Subject"
    once = add_trailers("Subject\n", [olek, again, signed, signed])
    assert once == "Subject\n\nCo-authored-by: Olek <Olek@example.org>\nSigned-off-by: Olek <olek@example.org>"
    assert add_trailers(once, [again, Trailer("Fixes", "#1")]) == f"{once}\nFixes: #1"
