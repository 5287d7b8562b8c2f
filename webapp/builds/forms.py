"""How a file that is loaded is read, as the parameters of an upload say."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.parsing import load_json
from webapp.builds.rules.files import DELIMITERS, FileForm
from webapp.core.errors import InvalidInput

_MARKS = {word: mark for mark, word in DELIMITERS.items()}
_HEADER = {"": True, "true": True, "1": True, "false": False, "0": False}


def read_file_form(query: Mapping[str, str]) -> FileForm:
    """Read how a file is read from the parameters of an upload.

    Raises:
        InvalidInput: one of them is nothing that can be.

    """
    delimiter, header = query.get("delimiter", ""), query.get("header", "").lower()
    if header not in _HEADER:
        message = f"header is true or false, not {query['header']!r}."
        raise InvalidInput(message, errors={"header": ["Must be true or false."]})
    form = FileForm(_MARKS.get(delimiter, delimiter), _HEADER[header], _read_types(query.get("types", "")))
    form.check()
    return form


def _read_types(text: str) -> dict[str, str]:
    try:
        types = load_json(text or "{}")
    except ValueError:
        types = None
    if not isinstance(types, dict) or not all(isinstance(kind, str) for kind in types.values()):
        message = 'types is a JSON object, column to type, such as {"code": "string"}.'
        raise InvalidInput(message, errors={"types": [message]})
    return types
