"""How an uploaded file is read, as far as the user says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webapp.core.errors import InvalidInput

CSV = "csv"
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
TYPES = ("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string")


@dataclass(frozen=True, slots=True)
class FileForm:
    """What the user says about a file; the rest is found in the file."""

    delimiter: str = ""
    """Of a CSV file, as `has_header` is."""
    has_header: bool = True
    types: Mapping[str, str] = field(default_factory=dict)
    """Column → Iceberg type, for those that are not left to the file."""

    def check(self) -> None:
        """Refuse what is no delimiter or type.

        Raises:
            InvalidInput: it is none.

        """
        if self.delimiter and self.delimiter not in DELIMITERS:
            message = f"A delimiter is a {', '.join(DELIMITERS.values())}, not {self.delimiter!r}."
            raise InvalidInput(message, errors={"delimiter": [message]})
        for column, name in self.types.items():
            if name not in TYPES:
                message = f"Column {column} cannot be a {name!r}: the types are {', '.join(TYPES)}."
                raise InvalidInput(message, errors={"types": [message]})

    def check_format(self, file_format: str) -> None:
        """Refuse what only a CSV file has.

        Raises:
            InvalidInput: the file is none.

        """
        if file_format != CSV and (self.delimiter or not self.has_header):
            name = "delimiter" if self.delimiter else "header"
            message = f"Only a CSV file has a {name}: leave it out, or name the file .csv if it is one."
            raise InvalidInput(message, errors={name: [message]})


def explain_unread(error: str) -> str:
    """Return why nothing of a file is shown."""
    return f"The file cannot be looked at: {error}."


def list_types(kind: str, file_format: str) -> tuple[str, ...]:
    """Return the types that a user can choose for a column of this type: of one that holds others few make sense."""
    is_nested = kind.endswith("[]") or kind.startswith(("struct", "list", "map", "large_list", "fixed_size_list"))
    if not is_nested:
        return TYPES
    return () if file_format == "parquet" else ("string",)
