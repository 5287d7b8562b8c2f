"""SQL that reads the live rows of Iceberg data files: columns by field id, deletes applied.

Files are grouped by their physical schema and by how they are filtered; each group is one `read_parquet`. A column
that a file lacks reads its initial default, an identity partition column its partition value. Maps are read in key
order, so that equal maps compare equal.
"""

from __future__ import annotations

import re
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.fsspec import FsspecFileIO
from pyroaring import BitMap64

from jobs.engine.errors import UnreadableTableError
from jobs.engine.read.fields import KEEP_NAN, ListType, MapType, Primitive, StructType, duckdb_type, literal, quote
from jobs.engine.read.metadata import check_regular, local_path, open_io, read_bytes
from jobs.engine.read.nested_lengths import add_nested_lengths
from jobs.engine.read.nodes import Node, dedupe, element_of, has_repeated, identify, read_tree
from jobs.engine.read.row_ids import COLUMNS, LAST_UPDATED, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import duckdb
    from duckdb import DuckDBPyType
    from pyiceberg.io import FileIO

    from jobs.engine.read.fields import Field, Type
    from jobs.engine.read.live_files import LiveFile, ShiftedFile
    from jobs.engine.read.metadata import LiveEntry, TableMetadata

_GLOB = re.compile(r"([*?\[])")
_ORIGINS = pa.schema({"file": pa.string(), "first_row_id": pa.int64(), "sequence": pa.int64()})
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


_OF_ANY_LENGTH = "('BYTE_ARRAY', 'FIXED_LEN_BYTE_ARRAY')"
_LENGTHS = {"varchar": "strlen", "blob": "octet_length"}
_VALUE_BYTES = 8
"""Of a number, or of the place of a text."""
_POSITION_BYTES = 24
"""Of a row that a deletion vector names: its file and its place."""


@dataclass(frozen=True)
class Weight:
    """What files hold in bytes, and what it takes decoded."""

    stored: int
    decoded: int
    """Without the texts and blobs themselves."""
    most_lengths: float
    """Those take no more than this, and mostly far less: as if each were as long as all that its column holds."""

    def __add__(self, other: Weight) -> Weight:
        return Weight(self.stored + other.stored, self.decoded + other.decoded, self.most_lengths + other.most_lengths)


@dataclass(frozen=True)
class ScanColumn:
    """One output column of a scan."""

    alias: str
    field: Field


@dataclass
class Scanner:
    """Reads files of one table into one DuckDB connection."""

    connection: duckdb.DuckDBPyConnection
    metadata: TableMetadata
    io_properties: Mapping[str, str]
    _schemas: dict[str, tuple[Node, ...]] = field(default_factory=dict)
    _equality: dict[frozenset[LiveEntry], str] = field(default_factory=dict)
    _opened_with: dict[str, str] | None = None

    @property
    def io(self) -> FileIO:
        return open_io(self.metadata.location, self.io_properties)

    # --- relations --------------------------------------------------------------------------------

    def live_rows(
        self, files: Sequence[LiveFile], columns: Sequence[ScanColumn], *, dead: str, is_located: bool = False
    ) -> str:
        """Select rows of `files` that their deletes leave. `dead` is the table of deleted positions of that end.

        Located rows also have `scan_file`, the path as `shown_path` gives it, and `scan_row`, their place in it.
        """
        groups: dict[tuple[object, ...], list[LiveFile]] = defaultdict(list)
        for file in files:
            groups[bool(file.positions), file.equality].append(file)
        parts = []
        for (has_positions, _equality), members in groups.items():
            filters = [f"NOT {_is_dead(dead)}"] if has_positions else []
            filters += [f"NOT {test}" for test in self._equality_tests(members[0].equality)]
            parts += self._scans(
                [m.data for m in members],
                columns,
                filters,
                self._equality_fields(members[0].equality),
                is_located=is_located,
            )
        return _union(parts, columns, is_located=is_located)

    def moved_rows(
        self, files: Sequence[ShiftedFile], columns: Sequence[ScanColumn], *, gone: bool, is_located: bool = False
    ) -> str:
        """Select rows of files that both ends list which only one end still has: `gone` for those that left."""
        stays, goes = ("before", "after") if gone else ("after", "before")
        return _union(self._shifted(files, columns, stays, goes, is_located=is_located), columns, is_located=is_located)

    def kept_rows(self, files: Sequence[ShiftedFile], columns: Sequence[ScanColumn], *, dead: Collection[str]) -> str:
        """Select rows of files that both ends list with other deletes, which both still have.

        `dead` are the tables of deleted positions of both ends.
        """
        parts = []
        for group in _shift_groups(files):
            equality = group[0].before.equality | group[0].after.equality
            filters = [f"NOT {_is_dead(table)}" for table in dead]
            filters += [f"NOT {test}" for test in self._equality_tests(equality)]
            parts += self._scans([f.before.data for f in group], columns, filters, self._equality_fields(equality))
        return _union(parts, columns)

    def count_rows(self, files: Collection[LiveEntry], dead: Sequence[str]) -> int:
        """Count the rows of `files` that no table of `dead` positions names; no file is opened."""
        counts = {"file": [self.shown_path(file.path) for file in files], "records": [file.records for file in files]}
        self.connection.register(
            "scan_counts", pa.table(counts, pa.schema({"file": pa.string(), "records": pa.int64()}))
        )
        gone = " UNION ".join(f"SELECT file, pos FROM {table}" for table in dead)
        rows = self.connection.execute(
            f"SELECT count(*) FROM ({gone}) gone JOIN scan_counts USING (file) WHERE gone.pos < scan_counts.records"
        ).fetchall()
        self.connection.unregister("scan_counts")
        return sum(file.records for file in files) - int(rows[0][0])

    def load_origins(self, table: str, files: Iterable[LiveEntry]) -> None:
        """Fill `table` with what the rows of files inherit: see `inherited_ids`."""
        origins = [(self.shown_path(file.path), file.first_row_id, file.sequence) for file in files]
        content = {name: [row[place] for row in origins] for place, name in enumerate(_ORIGINS.names)}
        self.connection.register("scan_origins", pa.table(content, _ORIGINS))
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM scan_origins")
        self.connection.unregister("scan_origins")

    def _shifted(
        self, files: Sequence[ShiftedFile], columns: Sequence[ScanColumn], stays: str, goes: str, *, is_located: bool
    ) -> list[str]:
        parts = []
        for group in _shift_groups(files):
            here: LiveFile = getattr(group[0], stays)
            there: LiveFile = getattr(group[0], goes)
            lives = [
                f"NOT {_is_dead(f'dead_{stays}')}",
                *(f"NOT {test}" for test in self._equality_tests(here.equality)),
            ]
            dies = [_is_dead(f"dead_{goes}"), *self._equality_tests(there.equality - here.equality)]
            equality = here.equality | there.equality
            chosen = [f.before.data for f in group]
            if not equality:
                chosen = self._with_positions(chosen, f"dead_{goes}")
            filters = [*lives, "(" + " OR ".join(dies) + ")"]
            parts += self._scans(chosen, columns, filters, self._equality_fields(equality), is_located=is_located)
        return parts

    def _with_positions(self, files: list[LiveEntry], table: str) -> list[LiveEntry]:
        rows = self.connection.execute(f"SELECT DISTINCT file FROM {table}").fetchall()
        touched = {row[0] for row in rows}
        return [file for file in files if self.shown_path(file.path) in touched]

    def _scans(
        self,
        files: Iterable[LiveEntry],
        columns: Sequence[ScanColumn],
        filters: Sequence[str],
        extra: Sequence[Field],
        *,
        is_located: bool = False,
    ) -> list[str]:
        groups: dict[tuple[tuple[Node, ...], tuple[tuple[int, str], ...]], list[LiveEntry]] = defaultdict(list)
        files = list(files)
        self._learn_schemas(files)
        all_columns = [*columns, *(ScanColumn(f"q{f.id}", f) for f in extra)]
        for file in files:
            schema = self._schemas[self.shown_path(file.path)]
            groups[schema, self._constants(file, schema, all_columns)].append(file)
        scans = []
        for (schema, constants), members in groups.items():
            values = [self._value(column, schema, dict(constants)) for column in all_columns]
            outputs = [f"{value} AS {column.alias}" for value, column in zip(values, all_columns, strict=True)]
            source = self._source(members, columns=len(schema))
            names = ", ".join(column.alias for column in columns) or "1 AS nothing"
            if is_located:
                names += ", scan_file, scan_row"
            if filters or is_located:
                inner = ", ".join([*outputs, "filename AS scan_file", "file_row_number AS scan_row"])
                scans.append(
                    f"SELECT {names} FROM (SELECT {inner} FROM {source}) scanned WHERE {' AND '.join(filters) or 'true'}"
                )
            else:
                scans.append(f"SELECT {', '.join(outputs) or names} FROM {source}")
        return scans

    def _source(self, files: Iterable[LiveEntry], *, columns: int = 0) -> str:
        """Return files as a relation `f` of columns c0, c1 …: by its own name one could hide what DuckDB adds."""
        files = list(files)
        for file in files:
            check_regular(file.path)
        paths = ", ".join(literal(_GLOB.sub(r"[\1]", self.shown_path(file.path))) for file in files)
        names = f" f({', '.join(f'c{place}' for place in range(columns))})" if columns else ""
        return f"read_parquet([{paths}], hive_partitioning=false, {KEEP_NAN}){names}"

    def weigh(self, files: Iterable[LiveEntry]) -> Weight:
        """Weigh files by their footers: how much they hold, and what the values of all columns take once decoded."""
        files = list(files)
        plain = [file for file in files if file.offset is None]
        vectors = [file for file in files if file.offset is not None]
        weight = Weight(
            sum(file.length or 0 for file in vectors), _POSITION_BYTES * sum(file.records for file in vectors), 0
        )
        if not plain:
            return weight
        for file in plain:
            check_regular(file.path)
        paths = ", ".join(literal(_GLOB.sub(r"[\1]", self.shown_path(file.path))) for file in plain)
        read = self.connection.execute(
            f"SELECT coalesce(sum(total_compressed_size), 0)::BIGINT, "
            f"coalesce(sum(greatest({_VALUE_BYTES} * num_values, total_uncompressed_size)), 0)::BIGINT, "
            f"coalesce(sum(num_values::DOUBLE * total_uncompressed_size) FILTER (type IN {_OF_ANY_LENGTH}), 0) "
            f"FROM parquet_metadata([{paths}])"
        ).fetchall()[0]
        return weight + Weight(*read)

    def add_lengths(self, files: Iterable[LiveEntry], *, enough: float) -> int:
        """Add up the bytes of all texts and blobs in all columns; nothing is added up beyond `enough`."""
        files = [file for file in files if file.offset is None]
        self._learn_schemas(files)
        groups: dict[tuple[Node, ...], list[LiveEntry]] = defaultdict(list)
        for file in files:
            groups[self._schemas[self.shown_path(file.path)]].append(file)
        total = sum(self._add_plain_lengths(schema, members) for schema, members in groups.items())
        for file in (member for schema, members in groups.items() if has_repeated(schema) for member in members):
            if total > enough:
                break
            with self.io.new_input(file.path).open() as opened:
                total += add_nested_lengths(opened, enough=enough - total)
        return total

    def _add_plain_lengths(self, schema: tuple[Node, ...], files: Sequence[LiveEntry]) -> int:
        """Add up the bytes of those that stand outside lists and maps."""
        rows = self.connection.sql(f"SELECT * FROM {self._source(files, columns=len(schema))}")
        lengths = [
            part for name, type_ in zip(rows.columns, rows.types, strict=True) for part in lengths_in(name, type_)
        ]
        if not lengths:
            return 0
        sums = rows.aggregate(", ".join(f"sum({length})" for length in lengths)).fetchall()[0]
        return sum(int(length or 0) for length in sums)

    def shown_path(self, location: str) -> str:
        """Return a location as DuckDB takes it and gives it back."""
        path = local_path(location)
        if path.startswith("/"):
            return path
        self._use_fsspec(location)
        return re.sub(r"^s3[an]://", "s3://", path)

    def _use_fsspec(self, location: str) -> None:
        properties = dict(self.io_properties)
        if properties == self._opened_with:
            return
        files = FsspecFileIO(properties).get_fs(location.partition("://")[0])
        name = files.protocol[0]
        if name in self.connection.list_filesystems():  # with keys that have been replaced since, or another scan's
            self.connection.unregister_filesystem(name)
        self.connection.register_filesystem(files)
        self._opened_with = properties

    # --- columns ----------------------------------------------------------------------------------

    def _learn_schemas(self, files: Iterable[LiveEntry]) -> None:
        unknown = {self.shown_path(file.path) for file in files} - self._schemas.keys()
        for path in unknown:
            check_regular(path)
        if not unknown:
            return
        paths = ", ".join(literal(_GLOB.sub(r"[\1]", path)) for path in sorted(unknown))
        rows = self.connection.execute(
            "SELECT file_name, name, field_id, coalesce(duckdb_type, ''), coalesce(num_children, 0), "
            f"coalesce(repetition_type, '') = 'REPEATED' FROM parquet_schema([{paths}])"
        ).fetchall()
        by_file: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for path, *rest in rows:
            by_file[path].append(tuple(rest))
        trees: dict[tuple[tuple[Any, ...], ...], tuple[Node, ...]] = {}
        for path, flat in by_file.items():
            signature = tuple(flat)
            if signature not in trees:
                trees[signature] = self._identified(read_tree(iter(flat)).children)
            self._schemas[path] = trees[signature]

    def _identified(self, columns: tuple[Node, ...]) -> tuple[Node, ...]:
        """Return the columns of a file; where it has no field ids, with those of the table's name mapping, if any."""
        if self.metadata.name_mapping is None or any(node.id is not None for node in columns):
            return columns
        return identify(columns, self.metadata.name_mapping)

    def _constants(
        self, file: LiveEntry, schema: tuple[Node, ...], columns: Sequence[ScanColumn]
    ) -> tuple[tuple[int, str], ...]:
        """Return identity partition values of columns that the file does not hold."""
        if not file.partition:
            return ()
        missing = {column.field.id: column.field for column in columns if self._find(schema, column.field) is None}
        constants = []
        for part, value in zip(self.metadata.specs[file.spec_id]["fields"], file.partition, strict=False):
            source = missing.get(int(part.get("source-id", -1)))
            if source is not None and part["transform"] == "identity":
                constants.append((source.id, constant(source.type, value)))
        return tuple(constants)

    def _find(self, schema: tuple[Node, ...], field: Field) -> Node | None:
        if any(node.id is not None for node in schema):
            return next((node for node in schema if node.id == field.id), None)
        return next((node for node in schema if node.name == field.name), None)

    def _value(self, column: ScanColumn, schema: tuple[Node, ...], constants: Mapping[int, str]) -> str:
        node = self._find(schema, column.field)
        if node is None:
            return constants.get(column.field.id) or default_value(column.field)
        return project(node, column.field.type, f"c{schema.index(node)}")

    # --- deletes ----------------------------------------------------------------------------------

    def load_positions(self, table: str, files: Iterable[LiveFile]) -> None:
        """Fill `table` with the deleted positions of `files`."""
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} (file VARCHAR, pos BIGINT)")
        names = {file.data.path: self.shown_path(file.data.path) for file in files if file.positions}
        deletes = {entry for file in files for entry in file.positions}
        vectors = [entry for entry in deletes if entry.offset is not None]
        if vectors:
            self._load_vectors(table, vectors, names)
        plain = [entry for entry in deletes if entry.offset is None]
        if plain:
            self._load_position_files(table, plain, names)

    def _load_vectors(self, table: str, entries: Collection[LiveEntry], names: Mapping[str, str]) -> None:
        contents: dict[str, bytes] = {}
        vectors = []
        for entry in entries:
            if entry.referenced is None or entry.referenced not in names:
                continue  # of a file that is not read: neither is this one
            if entry.path not in contents:
                contents[entry.path] = read_bytes(self.io, entry.path)
            positions = read_vector(contents[entry.path], entry)
            file = pa.DictionaryArray.from_arrays(pa.repeat(0, len(positions)), [names[entry.referenced]])
            vectors.append(pa.table({"file": file, "pos": positions}))
        if not vectors:
            return
        self.connection.register("scan_vectors", pa.concat_tables(vectors))
        # A file has one vector; where a writer left two of them, positions are counted once all the same.
        is_doubled = len({entry.referenced for entry in entries}) < len(vectors)
        self.connection.execute(
            f"INSERT INTO {table} SELECT {'DISTINCT' if is_doubled else ''} file, pos FROM scan_vectors"
        )
        self.connection.unregister("scan_vectors")

    def _load_position_files(self, table: str, entries: Iterable[LiveEntry], names: Mapping[str, str]) -> None:
        names_table = pa.table({"raw": list(names), "shown": list(names.values())})
        self.connection.register("scan_names", names_table)
        self.connection.execute(
            f"INSERT INTO {table} SELECT DISTINCT scan_names.shown, deletes.pos FROM {self._source(entries)} deletes "
            "JOIN scan_names ON scan_names.raw = deletes.file_path"
        )
        self.connection.unregister("scan_names")

    def _equality_fields(self, deletes: frozenset[LiveEntry]) -> list[Field]:
        ids = sorted({field_id for entry in deletes for field_id in entry.equality_ids})
        return [self._field(field_id) for field_id in ids]

    def _field(self, field_id: int) -> Field:
        field = self.metadata.fields_by_id.get(field_id)
        if field is None:
            raise UnreadableTableError(f"An equality delete uses field {field_id}, which no schema of the table has.")
        return field

    def _equality_tests(self, deletes: frozenset[LiveEntry]) -> list[str]:
        """Return one EXISTS for each set of columns by which `deletes` match rows."""
        by_ids: dict[tuple[int, ...], set[LiveEntry]] = defaultdict(set)
        for entry in deletes:
            by_ids[tuple(sorted(entry.equality_ids))].add(entry)
        tests = []
        for ids, entries in sorted(by_ids.items()):
            table = self._equality_table(frozenset(entries), ids)
            same = " AND ".join(f"deleted.q{field_id} IS NOT DISTINCT FROM scanned.q{field_id}" for field_id in ids)
            tests.append(f"EXISTS (SELECT 1 FROM {table} deleted WHERE {same})")
        return tests

    def _equality_table(self, entries: frozenset[LiveEntry], ids: tuple[int, ...]) -> str:
        if entries not in self._equality:
            # other scanners use the same connection
            name = f"equality_{uuid.uuid4().hex}"
            columns = [ScanColumn(f"q{field_id}", self._field(field_id)) for field_id in ids]
            rows = _union(self._scans(entries, columns, (), ()), columns)
            self.connection.execute(f"CREATE TEMP TABLE {name} AS SELECT DISTINCT * FROM ({rows})")
            self._equality[entries] = name
        return self._equality[entries]


ID_COLUMNS = [ScanColumn(column.name, column) for column in COLUMNS]
"""What files hold of the ids of rows."""


def inherited_ids(row: str, origin: str) -> tuple[str, str]:
    """Return SQL of the id of a located row and of its last change's commit, given its file's line of `load_origins`.

    A row of a file without a first row id has not been changed since rows have ids.
    """
    changed = f"CASE WHEN {origin}.first_row_id IS NOT NULL THEN {origin}.sequence END"
    return (
        f"coalesce({row}.{ROW_ID.name}, {origin}.first_row_id + {row}.scan_row)",
        f"coalesce({row}.{LAST_UPDATED.name}, {changed})",
    )


def _is_dead(table: str) -> str:
    """Return SQL that is true for a scanned row whose position is in a table."""
    return f"EXISTS (SELECT 1 FROM {table} dead WHERE dead.file = scanned.scan_file AND dead.pos = scanned.scan_row)"


def _shift_groups(files: Sequence[ShiftedFile]) -> list[list[ShiftedFile]]:
    groups: dict[tuple[object, ...], list[ShiftedFile]] = defaultdict(list)
    for file in files:
        groups[file.before.equality, file.after.equality].append(file)
    return list(groups.values())


def _union(parts: Sequence[str], columns: Sequence[ScanColumn], *, is_located: bool = False) -> str:
    if parts:
        return " UNION ALL ".join(parts)
    nothing = ", ".join(f"CAST(NULL AS {duckdb_type(column.field.type)}) AS {column.alias}" for column in columns)
    if is_located:
        nothing = ", ".join(filter(None, (nothing, "'' AS scan_file", "0::BIGINT AS scan_row")))
    return f"SELECT {nothing or '1 AS nothing'} WHERE false"


def read_vector(content: bytes, entry: LiveEntry) -> pa.Array:
    """Read the positions of one deletion vector: length, magic, one bitmap per upper half, checksum."""
    start = entry.offset or 0
    blob = content[start : start + (entry.length or 0)]
    length = int.from_bytes(blob[:4], "big")
    if blob[4:8] != _VECTOR_MAGIC or len(blob) < length + 8:
        raise UnreadableTableError(f"{entry.path} holds no deletion vector at byte {start}.")
    try:
        positions = BitMap64.deserialize(blob[8 : 4 + length])
    except (ValueError, IndexError) as error:
        raise UnreadableTableError(f"{entry.path} holds a damaged deletion vector at byte {start}.") from error
    if len(positions) > entry.records:
        raise UnreadableTableError(f"{entry.path} deletes {len(positions)} rows, its manifest says {entry.records}.")
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions.to_array())])


def lengths_in(value: str, type_: DuckDBPyType) -> list[str]:
    """Return SQL for the bytes of each text and blob in a value that stands outside lists and maps."""
    kind = type_.id
    if kind in _LENGTHS:
        return [f"{_LENGTHS[kind]}({value})"]
    if kind != "struct":
        return []
    parts = ((f"struct_extract({value}, {literal(name)})", inner) for name, inner in type_.children)
    return [length for part, inner in parts for length in lengths_in(part, inner)]


def project(node: Node, type_: Type, value: str) -> str:
    """Return SQL for a value of the wanted type out of a file's column."""
    if isinstance(type_, Primitive):
        return _project_primitive(node, type_, value)
    if isinstance(type_, ListType):
        element = element_of(node)
        inner = project(element, type_.element.type, "x") if element is not None else "x"
        return value if inner == "x" else f"list_transform({value}, lambda x: {inner})"
    if isinstance(type_, MapType):
        return _project_map(node, type_, value)
    return _project_struct(node, type_, value)


def _project_primitive(node: Node, type_: Primitive, value: str) -> str:
    target = duckdb_type(type_) or "VARCHAR"
    if node.type == target or (target == "TIMESTAMPTZ" and node.type == "TIMESTAMP WITH TIME ZONE"):
        return value
    if target == "VARCHAR" and node.type == "BLOB":
        return f"decode({value})"
    if target == "UUID" and node.type == "BLOB":
        return f"CAST(hex({value}) AS UUID)"
    return f"CAST({value} AS {target})"


def _project_struct(node: Node, type_: StructType, value: str) -> str:
    children = dedupe(node.children)
    by_id = any(child.id is not None for child in children)
    parts, plain = [], len(children) == len(type_.fields)
    for position, part in enumerate(type_.fields):
        child = next((c for c in children if (c.id == part.id if by_id else c.name == part.name)), None)
        if child is None:
            plain = False
            parts.append(f"{quote(part.name)} := {default_value(part)}")
            continue
        taken = f"struct_extract({value}, {literal(child.name)})"
        inner = project(child, part.type, taken)
        plain = plain and inner == taken and child.name == part.name and children[position] is child
        parts.append(f"{quote(part.name)} := {inner}")
    if plain:
        return value
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"


def _project_map(node: Node, type_: MapType, value: str) -> str:
    entry = node.children[0] if len(node.children) == 1 else None
    keys, values = "x.key", "x.value"
    if entry is not None and len(entry.children) == 2:
        keys = project(entry.children[0], type_.key.type, keys)
        values = project(entry.children[1], type_.value.type, values)
    entries = f"map_entries({value})"
    if (keys, values) != ("x.key", "x.value"):
        entries = f"list_transform({entries}, lambda x: struct_pack(key := {keys}, value := {values}))"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE map_from_entries(list_sort({entries})) END"


def default_value(field: Field) -> str:
    """Return what rows older than a column read: its initial default, else NULL."""
    target = duckdb_type(field.type)
    if field.default is None or not isinstance(field.type, Primitive):
        return f"CAST(NULL AS {target})"
    if field.type.is_bytes:
        return f"unhex({literal(str(field.default))})"
    return f"CAST({literal(str(field.default))} AS {target})"


def constant(type_: Type, value: Any) -> str:
    """Write a partition value, in the manifest's form, as SQL."""
    target = duckdb_type(type_)
    if value is None:
        return f"CAST(NULL AS {target})"
    name = type_.name if isinstance(type_, Primitive) else ""
    if isinstance(value, bytes):
        return (
            f"CAST({literal(str(uuid.UUID(bytes=value)))} AS UUID)"
            if name == "uuid"
            else f"unhex({literal(value.hex())})"
        )
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS {target})"
    if isinstance(value, int) and name == "date":
        return f"(DATE '1970-01-01' + {value})"
    if isinstance(value, int) and name in {"timestamp", "timestamptz"}:
        return f"CAST(make_timestamp({value}) AS {target})"
    if isinstance(value, int) and name in {"timestamp_ns", "timestamptz_ns"}:
        return f"CAST(make_timestamp_ns({value}) AS {target})"
    if isinstance(value, int) and name == "time":
        return f"CAST(make_timestamp({value}) AS TIME)"
    return f"CAST({literal(str(value))} AS {target})"
