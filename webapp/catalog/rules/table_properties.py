"""Values of table properties that clients can work with.

Properties belong to the whole table. Who writes it without a header may store any value, as in every Iceberg catalog. Who
writes a branch may not store a value that makes clients fail: it would stop the readers and writers of all other branches.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jobs.parsing import load_json
from webapp.catalog.rules.column_types import is_int
from webapp.catalog.rules.errors import Forbidden, Malformed

NAME_MAPPING = "schema.name-mapping.default"
OF_EVERYBODY = frozenset({"encryption.key-id", "write.location-provider.impl", "write.py-location-provider.impl"})
"""Code and keys that every client loads: no branch chooses them."""
# Jackson, with which Java's clients read JSON, takes names of 50,000 and texts of 20,000,000 characters.
LONGEST_NAME = 10_000
LONGEST_TEXT = 10_000_000
LARGEST_NUMBER = 2**63 - 1
MOST_DIGITS = 19
DEEPEST_MAPPING = 100
MOST_PATHS = 20_000
"""Of names in a name mapping: two names at each of a few dozen levels would make more than any machine can list."""
POSITIVE = frozenset(
    {
        "history.expire.min-snapshots-to-keep",
        "read.orc.vectorization.batch-size",
        "read.parquet.vectorization.batch-size",
        "read.split.metadata-target-size",
        "read.split.planning-lookback",
        "read.split.target-size",
        "write.delete.target-file-size-bytes",
        "write.orc.block-size-bytes",
        "write.orc.stripe-size-bytes",
        "write.orc.vectorized.batch-size",
        "write.parquet.bloom-filter-max-bytes",
        "write.parquet.dict-size-bytes",
        "write.parquet.page-row-limit",
        "write.parquet.page-size-bytes",
        "write.parquet.row-group-check-max-record-count",
        "write.parquet.row-group-check-min-record-count",
        "write.parquet.row-group-limit",
        "write.parquet.row-group-size-bytes",
        "write.target-file-size-bytes",
    }
)
"""Properties that clients read as whole numbers above 0, and fail at others."""
NUMBERS = frozenset(
    {
        "commit.manifest.min-count-to-merge",
        "commit.manifest.target-size-bytes",
        "commit.retry.max-wait-ms",
        "commit.retry.min-wait-ms",
        "commit.retry.num-retries",
        "commit.retry.total-timeout-ms",
        "commit.status-check.max-wait-ms",
        "commit.status-check.min-wait-ms",
        "commit.status-check.num-retries",
        "commit.status-check.total-timeout-ms",
        "encryption.data-key-length",
        "history.expire.max-ref-age-ms",
        "history.expire.max-snapshot-age-ms",
        "read.split.open-file-cost",
        "write.avro.compression-level",
        "write.manifest.compression-level",
        "write.metadata.metrics.max-inferred-column-defaults",
        "write.metadata.previous-versions-max",
        "write.parquet.compression-level",
        "write.parquet.variant-inference-buffer-size",
        "write.spark.advisory-partition-size-bytes",
        "write.summary.partition-limit",
    }
)
"""Properties that clients read as whole numbers."""
SWITCHES = frozenset(
    {
        "commit.manifest-merge.enabled",
        "compatibility.snapshot-id-inheritance.enabled",
        "gc.enabled",
        "read.parquet.vectorization.enabled",
        "write.metadata.delete-after-commit.enabled",
        "write.object-storage.enabled",
        "write.object-storage.partitioned-paths",
        "write.spark.accept-any-schema",
    }
)
"""Properties that clients read as true or false."""
_FORMATS = frozenset({"parquet", "avro", "orc"})
# Java's names, then those that PyIceberg knows besides.
_AVRO_CODECS = frozenset({"uncompressed", "snappy", "gzip", "zstd", "null", "deflate", "zstandard", "bzip2"})
_DISTRIBUTIONS = frozenset({"none", "hash", "range"})
_PLANNING = frozenset({"auto", "local", "distributed"})
_WRITE_MODES = frozenset({"copy-on-write", "merge-on-read"})
_LEVELS = frozenset({"serializable", "snapshot"})
CHOICES: Mapping[str, frozenset[str]] = {
    "read.data-planning-mode": _PLANNING,
    "read.delete-planning-mode": _PLANNING,
    "write.avro.compression-codec": _AVRO_CODECS,
    "write.delete.distribution-mode": _DISTRIBUTIONS,
    "write.delete.format.default": _FORMATS,
    "write.delete.granularity": frozenset({"file", "partition"}),
    "write.delete.isolation-level": _LEVELS,
    "write.delete.mode": _WRITE_MODES,
    "write.distribution-mode": _DISTRIBUTIONS,
    "write.format.default": _FORMATS,
    "write.manifest.compression-codec": _AVRO_CODECS,
    "write.merge.distribution-mode": _DISTRIBUTIONS,
    "write.merge.isolation-level": _LEVELS,
    "write.merge.mode": _WRITE_MODES,
    "write.metadata.compression-codec": frozenset({"none", "gzip"}),
    "write.orc.compression-codec": frozenset({"none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli"}),
    "write.orc.compression-strategy": frozenset({"speed", "compression"}),
    "write.parquet.compression-codec": frozenset(
        {"uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "lz4_raw", "zstd"}
    ),
    "write.parquet.page-version": frozenset({"v1", "v2"}),
    "write.update.distribution-mode": _DISTRIBUTIONS,
    "write.update.isolation-level": _LEVELS,
    "write.update.mode": _WRITE_MODES,
}
"""Properties of which clients know these values, in any case, and fail at others."""
_OF_DELETE_FILES = re.compile(r"write\.delete\.(?=(?:parquet|avro|orc)\.)")
_METRICS = re.compile(r"write\.metadata\.metrics\.(?:default|column\..*)", re.DOTALL)
_METRICS_MODE = re.compile(r"none|counts|full|truncate\(0*[1-9]\d{0,8}\)", re.IGNORECASE | re.ASCII)
_FRACTIONS = re.compile(r"write\.(?:parquet\.bloom-filter-fpp\.column\..*|orc\.bloom\.filter\.fpp)", re.DOTALL)
_FRACTION = re.compile(r"0?\.\d{1,18}", re.ASCII)
_DISTINCT = "write.parquet.bloom-filter-ndv.column."


def check_properties(properties: Mapping[str, str]) -> None:
    """Refuse properties that Java's clients cannot read back, and a name mapping that no client can read."""
    for key, value in properties.items():
        if len(key) > LONGEST_NAME or len(value) > LONGEST_TEXT:
            message = (
                f"Property {key[:100]} is too long: {LONGEST_NAME} characters for a name, {LONGEST_TEXT} for a value"
            )
            raise Malformed(message)
    if NAME_MAPPING in properties:
        read_name_mapping(properties[NAME_MAPPING])


def _find_expectation(key: str, value: str) -> str:
    """Return what the value of a property must be; empty where it is."""
    name = _OF_DELETE_FILES.sub("write.", key)
    if name in CHOICES:
        return "" if value.lower() in CHOICES[name] else f"one of {', '.join(sorted(CHOICES[name]))}"
    if name in SWITCHES:
        return "" if value.lower() in ("true", "false") else "true or false"
    if name in NUMBERS or name.startswith(_DISTINCT):
        return "" if _is_number(value) else "a whole number"
    if name in POSITIVE:
        return "" if _is_number(value) and int(value) > 0 else "a whole number above 0"
    if _METRICS.fullmatch(name):
        return "" if _METRICS_MODE.fullmatch(value) else "none, counts, truncate(N) or full"
    if _FRACTIONS.fullmatch(name):
        return "" if _FRACTION.fullmatch(value) and float(value) > 0 else "a fraction between 0 and 1"
    return ""


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS and int(digits) <= LARGEST_NUMBER


def read_name_mapping(text: str) -> dict[tuple[str, ...], int | None]:
    """Return the column's id for each path of names by which files without ids are read.

    Raises:
        Malformed: it is no name mapping as the table specification has it.

    """
    try:
        paths = list(islice(_walk_mapping(load_json(text), ()), MOST_PATHS + 1))
    except ValueError:
        raise Malformed(f"Property {NAME_MAPPING} is no name mapping in JSON: {text[:100]!r}") from None
    if len(paths) > MOST_PATHS:
        raise Malformed(f"Property {NAME_MAPPING} has more than {MOST_PATHS:,} paths of names")
    return dict(paths)


def _walk_mapping(fields: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int | None]]:
    if not isinstance(fields, list) or len(above) > DEEPEST_MAPPING:
        raise ValueError
    for item in fields:
        names, number = (item.get("names"), item.get("field-id")) if isinstance(item, dict) else (None, None)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError
        if number is not None and not (type(number) is int and is_int(number)):
            raise ValueError
        for name in names:
            yield (*above, name), number
            yield from _walk_mapping(item.get("fields", []), (*above, name))


def check_values(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse from a branch values at which the clients of all branches fail."""
    for key, value in after.items():
        expectation = "" if before.get(key) == value else _find_expectation(key, value)
        if expectation:
            message = (
                f"Property {key[:100]} must be {expectation}, not {value[:100]!r}: it holds for all branches. "
                "Without the X-PLTR-Branch header any value is stored."
            )
            raise Malformed(message)


def check_from_branch(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse from a branch a change of properties that lets other branches read other rows, load other code, or fail."""
    check_values(before, after)
    for key in sorted(OF_EVERYBODY | {NAME_MAPPING}):
        if before.get(key) != after.get(key) and not _is_only_wider(key, before, after):
            message = (
                f"Property {key} decides for all branches how the table's files are read or written: "
                "set it on master, without the X-PLTR-Branch header."
            )
            raise Forbidden(message)


def _is_only_wider(key: str, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Return whether a name mapping still has for each name that it had the column that it had."""
    if key != NAME_MAPPING or key not in after:
        return False
    new = read_name_mapping(after[key])
    old = read_name_mapping(before[key]) if key in before else {}
    return all(path in new and new[path] == number for path, number in old.items())
