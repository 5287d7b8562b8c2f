"""Records of manifests in JSON, for a reader that takes nothing on trust: every value says what it is."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from pyiceberg.typedef import Record


def pack(value: Any) -> Any:
    """Return a value in JSON: what JSON has no form for is an object of one member that names its kind."""
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case Decimal():
            return {"decimal": str(value)}
        case UUID():
            return {"uuid": value.hex}
        case Mapping():
            return {"map": [[pack(key), pack(item)] for key, item in value.items()]}
        case Record():
            return {"record": [pack(item) for item in value._data]}
        case _:
            return [pack(item) for item in value]
