"""Characters that readers cannot see or tell apart: which they are, and how pages draw them.

Pages draw a character as an element whose label comes from CSS. Its text is still the character, so copies are exact.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

from django.utils.html import escape

from webapp.core.budgets import spending

if TYPE_CHECKING:
    from collections.abc import Iterable

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_IDEOGRAPHS = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_MONGOLIAN = "\u1820-\u18aa"
_JOINED = "\u0620-\u074f\u0750-\u077f\u08a0-\u0dff\u0f00-\u109f\u1780-\u17d3\ufb50-\ufdff\ufe70-\ufefc" + _MONGOLIAN
"""Letters and marks of scripts that are written with joiners."""
_CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_NEVER_SEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
"""Unicode's ignorable characters, separators of lines and blank symbols, without those that some scripts need."""
HIDDEN_PATTERN = (
    f"[{_CONTROLS}{_NEVER_SEEN}]"
    f"|(?<![{_EMOJI}])(?!(?<=[0-9#*]).\u20e3)[\ufe0e\ufe0f]"
    f"|(?<![{_IDEOGRAPHS}])[\ufe00-\ufe0d\U000e0100-\U000e01ef]"
    f"|(?<![{_MONGOLIAN}])[\u180b-\u180d\u180f]"
    f"|(?!(?<=[{_JOINED}])[\u200c\u200d][{_JOINED}])(?!(?<=[{_EMOJI}\ufe0f])\u200d[{_EMOJI}])[\u200c\u200d]"
)
"""Characters that nobody sees or that reorder the text around them; joiners only where no script or emoji needs them."""
HIDDEN = re.compile(HIDDEN_PATTERN)
UNSEEN = re.compile(f"[{_CONTROLS}{_NEVER_SEEN}\u180b-\u180f\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef\t\n\r]")
"""The same wherever they are, with tabs and the ends of lines: what a name has none of."""
HIDDEN_IN_SCRIPTS = "".join(f"\\u{{{ord(sign):x}}}" if not " " <= sign <= "~" else sign for sign in HIDDEN_PATTERN)
"""The pattern as scripts of pages compile it."""
ODD_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_IN_CODE = re.compile(f"{HIDDEN_PATTERN}|[{ODD_SPACES}\r]")
_IN_VALUES = f"{HIDDEN_PATTERN}|[{ODD_SPACES}\t\n\r]|  +"
_IN_CELLS = {
    (is_start, is_end): re.compile(_IN_VALUES + r"|\A +" * is_start + r"| +\Z" * is_end)
    for is_start in (False, True)
    for is_end in (False, True)
}
_MOST_LABELS = 4
"""In one run of equal characters; a longer one has its length."""
_ALL = re.compile(r"([^!-~])\1*")
_BLANK = re.compile(rf"[\s{ODD_SPACES}]+")
_SEEN_BYTES = bytes([9, 10, 13, *range(32, 127)])
_GLYPHS = {" ": "␠", "\t": "⇥", "\n": "↵", "\r": "␍", "\x7f": "␡"}
_ALIASES = {
    " ": "space",
    "\t": "tab",
    "\n": "line feed",
    "\r": "carriage return",
    "\x1b": "escape",
    "\0": "null",
    "\ufeff": "byte order mark",
}
_LOOK_ALIKES = {
    '"': "\u201c\u201d\u201e\u201f\u2033\u02ba",
    "'": "\u2018\u2019\u201a\u201b\u02bc\u02b9\u2032\u0060\u00b4",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043",
    ".": "\u2024",
    "/": "\u2215\u2044",
    ":": "\u2236\u0589",
    "A": "\u0410\u0391",
    "B": "\u0412\u0392",
    "C": "\u0421",
    "E": "\u0415\u0395",
    "G": "\u050c",
    "H": "\u041d\u0397",
    "I": "\u0406\u0399",
    "J": "\u0408",
    "K": "\u041a\u039a",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "\u041e\u039f",
    "P": "\u0420\u03a1",
    "S": "\u0405",
    "T": "\u0422\u03a4",
    "W": "\u051c",
    "X": "\u0425\u03a7",
    "Y": "\u0423\u03a5",
    "Z": "\u0396",
    "a": "\u0430",
    "c": "\u0441",
    "d": "\u0501",
    "e": "\u0435",
    "g": "\u0261",
    "h": "\u04bb",
    "i": "\u0456\u0131",
    "j": "\u0458",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440\u03c1",
    "q": "\u051b",
    "s": "\u0455",
    "u": "\u03c5",
    "v": "\u03bd",
    "w": "\u051d",
    "x": "\u0445",
    "y": "\u0443",
}
"""A character of ASCII → letters of other scripts and punctuation that most fonts draw like it."""
_PLAIN_FORMS = {ord(other): plain for plain, others in _LOOK_ALIKES.items() for other in others}


def has_hidden(content: bytes) -> bool:
    """Return whether a text in UTF-8 has characters that nobody sees; quick where it has few outside ASCII."""
    rest = content.translate(None, _SEEN_BYTES)
    # Joiners have lost their neighbours, so some of what is found here may be needed by its script.
    return bool(rest) and UNSEEN.search(rest.decode("utf-8", "replace")) is not None


def code_point(character: str) -> str:
    """Return the name of a character in Unicode's tables: U+202E."""
    return f"U+{ord(character):04X}"


@lru_cache(maxsize=1024)
def describe(character: str) -> str:
    """Return a character's code point and name: U+202E right-to-left override."""
    name = _ALIASES.get(character) or unicodedata.name(character, "control character").lower()
    return f"{code_point(character)} {name}"


def draw_hidden(html: str) -> str:
    """Draw the characters that nobody sees in a piece of HTML that has no tags."""
    return HIDDEN.sub(_draw_match, html)


def draw_code(text: str) -> str:
    """Write a piece of code as HTML: hidden characters and unusual spaces are drawn."""
    return _IN_CODE.sub(_draw_match, escape(text))


def draw_cell(text: str, *, is_start: bool = True, is_end: bool = True) -> str:
    """Write a value of a table as HTML: hidden characters are drawn, and blanks that a cell would swallow.

    Args:
        text: the value or a part of it.
        is_start: whether the value begins here.
        is_end: whether it ends here.

    """
    return _IN_CELLS[is_start, is_end].sub(_draw_match, escape(text))


def draw_everything(text: str) -> str:
    """Write a text as HTML in which each blank and each character outside ASCII is drawn."""
    return _ALL.sub(_draw_match, escape(text))


def _draw_match(match: re.Match[str]) -> str:
    character, count = match[0][0], len(match[0])
    with spending() as budget:
        if not budget.take_pieces(1):
            return f"[{code_point(character)}]"
    return _draw_run(character, count)


@lru_cache(maxsize=1024)
def _draw_run(character: str, count: int) -> str:
    """Return the element that draws one character as often as it stands there: a label from CSS around the true text."""
    label = _GLYPHS.get(character) or (chr(0x2400 + ord(character)) if character < " " else code_point(character))
    name = describe(character)
    is_letter = character.isprintable() and not character.isspace() and not HIDDEN.match(character)
    # The parser of HTML makes a line feed of a raw carriage return, and takes no NUL.
    text = {"\r": "&#13;", "\0": "\ufffd"}.get(character, character) * count
    return (
        f'<i class="ch{" ch--seen" if is_letter else ""}" title="{name}{f", {count} times" if count > 1 else ""}"'
        f' data-ch="{label * count if count <= _MOST_LABELS else f"{label}×{count}"}">{text}</i>'
    )


def spell_hidden(text: str) -> str:
    """Write the names of hidden characters into a text that is shown where nothing can be drawn: [U+202E]."""
    return HIDDEN.sub(lambda match: f"[{code_point(match[0])}]", text)


def list_hidden(lines: Iterable[str]) -> dict[str, list[int]]:
    """Return the hidden characters of a text with the numbers of their lines, counted from 1."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        if not (line.isascii() and line.isprintable()):
            for character in dict.fromkeys(HIDDEN.findall(line)):
                places.setdefault(character, []).append(number)
    return places


def fold(text: str) -> str:
    """Return the same text for all that look alike: without hidden characters, in one kind of blanks, letters and dashes."""
    if text.isascii() and text.isprintable():
        return _BLANK.sub(" ", text).strip() if "  " in text or text != text.strip() else text
    plain = UNSEEN.sub("", _BLANK.sub(" ", unicodedata.normalize("NFKD", text))).translate(_PLAIN_FORMS)
    return _BLANK.sub(" ", plain).strip()


def look_alike(before: str, after: str) -> bool:
    """Return whether two different texts would be taken for the same."""
    return before != after and fold(before) == fold(after)


def find_lookalikes(texts: Iterable[str]) -> dict[str, str]:
    """Return, for each text that looks like another one of them, that other one."""
    distinct = dict.fromkeys(texts)
    folded = {text: fold(text) for text in distinct}
    if all(text == plain for text, plain in folded.items()):
        return {}
    groups: dict[str, list[str]] = {}
    for text, plain in folded.items():
        groups.setdefault(plain, []).append(text)
    return {
        text: group[1] if text == group[0] else group[0]
        for group in groups.values()
        if len(group) > 1
        for text in group
    }
