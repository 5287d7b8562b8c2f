"""What a JobSpec may say is as long as the columns that keep it."""

from __future__ import annotations

from dataclasses import fields

from django.db.models import Model

from jobs.protocol import InputSpec, JobSpec, OutputSpec
from webapp.builds.models import JobInput, JobOutput, PublishedInput, PublishedOutput, PublishedSpec
from webapp.datasets.models import Dataset


def read_limits(kind: type) -> dict[str, int]:
    return {entry.name: entry.metadata["at_most"] for entry in fields(kind) if "at_most" in entry.metadata}


def read_lengths(*models: type[Model]) -> dict[str, int]:
    """Return the shortest column of each name."""
    lengths: dict[str, int] = {}
    for field in (field for model in models for field in model._meta.fields):
        if field.max_length:
            lengths[field.name] = min(field.max_length, lengths.get(field.name, field.max_length))
    return lengths


def test_texts_of_a_jobspec_fit_their_columns() -> None:
    for kind, models in (
        (JobSpec, (PublishedSpec,)),
        (InputSpec, (PublishedInput, JobInput, Dataset)),
        (OutputSpec, (PublishedOutput, JobOutput, Dataset)),
    ):
        limits, lengths = read_limits(kind), read_lengths(*models)
        limits.pop("line", None)
        assert limits == {name: lengths[name] for name in limits}
        assert limits
