"""Which columns the code of a transform asks for, and which words of it may name columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.protocol import InputSpec, JobSpec
from tests.factories.jobs import HEAD, publish_files

pytestmark = pytest.mark.slow
CODE = (
    HEAD
    + '''
from pipelines.shared import add_operator

KEY = ["Carrier", "flight"]

@transform.using(
    flights=TableInput("/x/flights"), weather=TableInput("/x/weather"), airlines=TableInput("/x/airlines"),
    fleet=TableInput("/x/fleet"), routes=TableInput("/x/routes"), out=TableOutput("/x/out"),
)
def all_kinds(flights, weather, airlines, fleet, routes, out):
    """Not a name: docstring_word."""
    print(flights.path)
    left = flights.polars(columns=["day", "carrier"])
    right = flights.arrow(["carrier", "dep_delay"])
    hours = weather.pandas(columns=("origin", "wind"), filter="visib > 3")
    names = airlines.polars(columns=[*KEY, "name"])
    whole = add_operator(fleet.polars())
    routes = routes.arrow(columns=["dest"])
    out.write_table(hours.query("gust > 1").temp.mean().pivot(index="hour"))

@transform.using(out=TableOutput("/x/seed"))
def reads_nothing(out):
    out.write_table(None)

def unused():
    return "other_word"
'''
)
FILES = {
    "pipelines/__init__.py": "",
    "pipelines/module.py": CODE,
    "pipelines/shared.py": 'def add_operator(frame):\n    return frame.filter(Operator="a b-c")\n',
}


def publish(folder: Path, files: dict[str, str]) -> dict[str, JobSpec]:
    result = publish_files(folder, files)
    assert result.errors == ()
    return {spec.function.rpartition(":")[2]: spec for spec in result.jobspecs}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, JobSpec]:
    """Return what is published of the code above."""
    return publish(tmp_path_factory.mktemp("columns"), FILES)


@pytest.fixture(scope="module")
def inputs(specs: dict[str, JobSpec]) -> dict[str, InputSpec]:
    """Return the inputs of the first transform, by name."""
    return {source.name: source for source in specs["all_kinds"].inputs}


def test_columns_that_are_written_out_are_asked_for(inputs: dict[str, InputSpec]) -> None:
    assert (inputs["flights"].columns, inputs["flights"].is_listed) == (("day", "carrier", "dep_delay"), True)


@pytest.mark.parametrize(
    ("name", "columns"), [("weather", ("origin", "wind")), ("airlines", ("name",)), ("fleet", ()), ("routes", ())]
)
def test_more_may_be_read_than_is_written_out(
    name: str, columns: tuple[str, ...], inputs: dict[str, InputSpec]
) -> None:
    """By a filter, by a list that lies elsewhere, by whoever takes the whole; a name that is bound anew is another."""
    assert (inputs[name].columns, inputs[name].is_listed) == (columns, False)


def test_words_are_of_texts_attributes_and_keywords_wherever_the_code_leads(specs: dict[str, JobSpec]) -> None:
    words = set(specs["all_kinds"].words or ())
    assert {"visib", "gust", "temp", "index", "hour", "carrier", "flight", "operator", "a", "b", "c"} <= words
    assert not {"docstring_word", "other_word", "x", "weather", "mean", "pivot", "write_table", "left"} & words
    assert specs["reads_nothing"].words == ()


def test_too_many_words_are_not_known(tmp_path: Path) -> None:
    texts = ", ".join(f'"w{number}"' for number in range(1001))
    code = CODE.replace("out.write_table(None)", "out.write_table(TEXTS)") + f"\nTEXTS = [{texts}]\n"
    assert publish(tmp_path, {**FILES, "pipelines/module.py": code})["reads_nothing"].words is None
