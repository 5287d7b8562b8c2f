"""Which manifests and files a scan needs, and what is left of its filter for each file. PyIceberg's judges, made safe:

columns of old partition specs are looked up in the whole history of schemas, types that PyIceberg does not know are left
out, and a bound that cannot be read excludes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pyiceberg.expressions import BooleanExpression, BoundPredicate, UnboundPredicate
from pyiceberg.expressions.visitors import (
    _InclusiveMetricsEvaluator,
    bind,
    expression_evaluator,
    inclusive_projection,
    manifest_evaluator,
)
from pyiceberg.manifest import DataFile, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from webapp.catalog.rules.errors import Unsupported
from webapp.catalog.rules.filters import Filter, Leaf, expression_of, filter_json, parse_filter, residual
from webapp.catalog.rules.iceberg import Metadata
from webapp.catalog.rules.metadata import schema_of, walk_fields
from webapp.catalog.rules.scan_deletes import partition_of
from webapp.catalog.rules.scans import ScanRequest

UNREADABLE = (struct.error, ValueError, TypeError, KeyError)
Judge = Callable[[DataFile], bool]


class FileChoice:
    """The choice of files for one filter over one schema."""

    def __init__(self, metadata: Metadata, *, schema_id: int, request: ScanRequest) -> None:
        self._metadata = metadata
        self.schema, hidden = read_schema(schema_of(metadata, schema_id))
        self.filter: Filter = parse_filter(
            request.filter, schema=self.schema, case_sensitive=request.case_sensitive, hidden=hidden
        )
        self._expression = expression_of(self.filter)
        self._metrics = _InclusiveMetricsEvaluator(self.schema, self._expression)
        self._specs = {spec["spec-id"]: spec for spec in metadata["partition-specs"]}
        self._known: dict[int, _SpecChoice] = {}
        self._residuals: dict[Any, Any] = {}

    @property
    def is_whole(self) -> bool:
        """Whether there is no filter at all."""
        return self.filter is True

    def wants_manifest(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest may list a file with rows of the scan."""
        return self._spec(manifest.partition_spec_id).wants_manifest(manifest)

    def wants_file(self, file: DataFile) -> bool:
        """Return whether a file may hold rows of the scan."""
        if not self._spec(file.spec_id).wants_partition(file):
            return False
        try:
            return bool(self._metrics.eval(file))
        except UNREADABLE:
            return True

    def residual_of(self, file: DataFile) -> Any:
        """Return what is left of the filter for a file, in JSON."""
        key = partition_of(file)
        if key not in self._residuals:
            self._residuals[key] = filter_json(self._spec(file.spec_id).residual_of(file))
        return self._residuals[key]

    def partition_fields(self, spec_id: int) -> tuple[NestedField, ...]:
        """Return the fields of a partition, with the types of their values."""
        return tuple(self._spec(spec_id).partition_fields)

    def column_ids(self, names: tuple[str, ...]) -> frozenset[int]:
        """Return the ids of the columns of these names that there are."""
        ids = set()
        for name in names:
            try:
                ids.add(self.schema.find_field(name).field_id)
            except ValueError:
                continue
        return frozenset(ids)

    def _spec(self, spec_id: int) -> _SpecChoice:
        if spec_id not in self._known:
            spec = _read_spec(self._specs[spec_id])
            sources = _sources(self._metadata, spec)
            self._known[spec_id] = _SpecChoice(spec, sources, self.schema, self.filter, self._expression)
        return self._known[spec_id]


class _SpecChoice:
    """The choice among the files of one partition spec."""

    def __init__(
        self, spec: PartitionSpec, sources: Schema, schema: Schema, condition: Filter, expression: BooleanExpression
    ) -> None:
        self._spec = spec
        self._schema = schema
        self._filter = condition
        self.partition_fields = spec.partition_type(sources).fields
        self._partition = Schema(*self.partition_fields)
        projected = inclusive_projection(schema, spec)(expression)
        self._wants_manifest = manifest_evaluator(spec, sources, projected)
        self._wants_partition = expression_evaluator(self._partition, projected, case_sensitive=True)
        self._judges: dict[int, list[tuple[Judge | None, Judge | None]]] = {}

    def wants_manifest(self, manifest: ManifestFile) -> bool:
        try:
            return bool(self._wants_manifest(manifest))
        except UNREADABLE:
            return True

    def wants_partition(self, file: DataFile) -> bool:
        try:
            return bool(self._wants_partition(file.partition))
        except UNREADABLE:
            return True

    def residual_of(self, file: DataFile) -> Filter:
        def judge(leaf: Leaf) -> bool | None:
            for always, ever in self._judges_of(leaf):
                if always is not None and _says(always, file, default=False):
                    return True
                if ever is not None and not _says(ever, file, default=True):
                    return False
            return None

        return residual(self._filter, judge)

    def _judges_of(self, leaf: Leaf) -> list[tuple[Judge | None, Judge | None]]:
        key = id(leaf)
        if key not in self._judges:
            self._judges[key] = list(self._make_judges(leaf))
        return self._judges[key]

    def _make_judges(self, leaf: Leaf) -> list[tuple[Judge | None, Judge | None]]:
        """Judge each partition field of the column: what holds where all rows match, and what where any row may."""
        if not isinstance(leaf.predicate, UnboundPredicate):
            return []
        bound = bind(self._schema, leaf.predicate, case_sensitive=True)
        if not isinstance(bound, BoundPredicate):
            return []
        parts: list[PartitionField] = self._spec.fields_by_source_id(bound.term.ref().field.field_id)
        return [
            (
                self._judge(part.transform.strict_project(part.name, bound)),
                self._judge(part.transform.project(part.name, bound)),
            )
            for part in parts
        ]

    def _judge(self, projected: BooleanExpression | None) -> Judge | None:
        if projected is None:
            return None
        evaluate = expression_evaluator(self._partition, projected, case_sensitive=True)
        return lambda file: bool(evaluate(file.partition))


def _says(judge: Judge, file: DataFile, *, default: bool) -> bool:
    try:
        return judge(file)
    except UNREADABLE:
        return default


def read_schema(body: Mapping[str, Any]) -> tuple[Schema, frozenset[str]]:
    """Read a schema as PyIceberg knows it, and the names of the columns whose types it does not know."""
    fields, hidden = [], set()
    for item in body["fields"]:
        try:
            fields.append(NestedField.model_validate(item))
        except (ValidationError, ValueError):
            hidden.add(item["name"])
    return Schema(*fields), frozenset(hidden)


def _read_spec(body: Mapping[str, Any]) -> PartitionSpec:
    try:
        return PartitionSpec.model_validate(body)
    except (ValidationError, ValueError) as error:
        message = f"Partition spec {body['spec-id']} cannot be planned by the server; plan this scan on the client"
        raise Unsupported(message) from error


def _sources(metadata: Metadata, spec: PartitionSpec) -> Schema:
    """Return the source columns of a spec with their newest types, also those that are dropped by now."""
    ids = {field.source_id for field in spec.fields}
    kinds: dict[int, Any] = {}
    for schema in metadata["schemas"]:
        kinds |= {number: kind for number, _, kind in walk_fields(schema) if number in ids and isinstance(kind, str)}
    bodies = [
        {"id": number, "name": f"column_{number}", "required": False, "type": kind} for number, kind in kinds.items()
    ]
    return read_schema({"fields": bodies})[0]
