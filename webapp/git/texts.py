"""Text files as bytes: their encoding, byte order mark and line ends. One reading serves files, diffs and comments."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "windows-1252", "iso-8859-1", "mixed"]
LineEnds = Literal["lf", "crlf", "mixed", "none"]
ENCODINGS = ("utf-8", "utf-16", "windows-1252", "iso-8859-1", "mixed")
LINE_ENDS = ("lf", "crlf", "mixed", "none")
SNIFFED_BYTES = 8000
"""Of a file, in which a NUL makes it binary: Git's own rule."""
_WORDS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "windows-1252": "Windows-1252", "iso-8859-1": "ISO 8859-1"}
_END_WORDS = {"lf": "LF", "crlf": "CRLF", "mixed": "LF and CRLF", "none": "no line end"}
_UNDEFINED_IN_1252 = b"\x81\x8d\x8f\x90\x9d"
_NAMED_ENCODINGS = re.compile(r"iso8859-.*|iso2022_.*|cp\d+|koi8-.*|mac-.*|euc_.*|shift_jis.*|gb\w*|big5.*|tis-620")
"""By their names in Python; others need too long for hostile texts, or make no text."""
_C1 = bytes(range(0x80, 0xA0))


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a text is stored."""

    encoding: Encoding
    """UTF-8 where the bytes are; mixed: UTF-8 with other bytes in it. Of others the encoding is a guess."""
    has_bom: bool
    line_ends: LineEnds

    @property
    def words(self) -> str:
        """Return the form in words: UTF-8 with a byte order mark, CRLF."""
        encoding = _WORDS.get(self.encoding, "UTF-8 with invalid bytes")
        return f"{encoding}{' with a byte order mark' if self.has_bom else ''}, {_END_WORDS[self.line_ends]}"

    @property
    def is_usual(self) -> bool:
        """Return whether it is UTF-8 without a mark and with one kind of line ends: LF, CRLF or none."""
        return self.encoding == "utf-8" and not self.has_bom and self.line_ends != "mixed"

    def decode(self, content: bytes) -> str:
        """Return the text of these bytes; a byte that is no character is written with a backslash."""
        if self.encoding == "mixed":
            return content.decode("utf-8", "backslashreplace")
        return content.decode("cp1252" if self.encoding == "windows-1252" else self.encoding, "backslashreplace")


def is_binary(content: bytes) -> bool:
    """Return whether a file is no text by Git's own rule of thumb."""
    return b"\0" in content[:SNIFFED_BYTES]


def read_form(content: bytes) -> TextForm:
    """Return how a text file is stored."""
    crlf, lf = content.count(b"\r\n"), content.count(b"\n")
    ends: LineEnds = "none" if not lf else "lf" if not crlf else "crlf" if crlf == lf else "mixed"
    return TextForm(_find_encoding(content), content.startswith(codecs.BOM_UTF8), ends)


def decode(content: bytes) -> str:
    """Return the text of a file."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return read_form(content).decode(content)


def decode_as(content: bytes, encoding: str) -> str:
    """Return a text in the encoding that its writer names, if that is one of text that Git's clients use."""
    try:
        codec = codecs.lookup(encoding).name if encoding else ""
    except LookupError:
        codec = ""
    return content.decode(codec, "backslashreplace") if _NAMED_ENCODINGS.fullmatch(codec) else decode(content)


def _find_encoding(content: bytes) -> Encoding:
    try:
        content.decode()
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    text = content.decode("utf-8", "surrogateescape")
    invalid = sum("\udc80" <= character <= "\udcff" for character in text)
    if sum(not character.isascii() for character in text) >= 2 * invalid:
        return "mixed"
    has_c1 = len(content) != len(content.translate(None, _C1))
    is_1252 = has_c1 and len(content) == len(content.translate(None, _UNDEFINED_IN_1252))
    return "windows-1252" if is_1252 else "iso-8859-1"
