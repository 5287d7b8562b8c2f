"""Files as the text of a form: browsers change the ends of lines, and only UTF-8 has one text for its bytes."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\r|\n")


def normalise_lines(text: str) -> str:
    """Return a text with the line ends that a form's text is compared by."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def explain_read_only(content: bytes) -> str:
    """Return why a text cannot be edited in a form without changing other bytes, or nothing if it can."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return f"Byte {error.start + 1} is not UTF-8, so a form would change it."
    ends = set(_LINE_END.findall(content))
    if ends - {b"\n", b"\r\n"} or len(ends) > 1:
        return "Its lines end in different ways (LF, CRLF or CR), and a form would make them the same."
    return ""


def restore_lines(text: str, *, old: bytes) -> bytes:
    """Return a text of a form as bytes, with the line ends of the old file."""
    lines = normalise_lines(text)
    return (lines.replace("\n", "\r\n") if b"\r\n" in old else lines).encode()
