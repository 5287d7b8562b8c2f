"""What a commit publishes, and what it says about code that cannot be published."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.protocol import DatasetRules
from tests.factories.jobs import HEAD, publish_files
from webapp.repositories.rules.starters import EMPTY, STARTERS, fill_starter
from webapp.repositories.services.repositories import STARTER_FILES

pytestmark = pytest.mark.slow
GOOD = (
    HEAD
    + '''
@transform.using(
    flights=TableInput("/nyc/flights"),
    daily=TableOutput("/nyc/delays/daily", checks=[Check(E.primary_key("day"), "one row a day", on_error="WARN")]),
)
def compute(flights, daily):
    """Delays of every day.

    And more.
    """
'''
)


def test_a_transform_becomes_a_jobspec(tmp_path: Path) -> None:
    result = publish_files(tmp_path, {"pipelines/delays.py": GOOD})
    assert result.errors == ()
    (spec,) = result.jobspecs
    assert (spec.function, spec.file, spec.line) == ("pipelines.delays:compute", "pipelines/delays.py", 6)
    assert (spec.profile, spec.size, spec.incremental) == ("light", "small", False)
    assert spec.description == "Delays of every day."
    assert [(given.name, given.path, given.branch) for given in spec.inputs] == [("flights", "/nyc/flights", None)]
    (output,) = spec.outputs
    (check,) = output.checks
    assert (output.path, check.name, check.on_error) == ("/nyc/delays/daily", "one row a day", "WARN")
    assert check.expectation == "day is unique and not null"


def test_options_are_taken_above_and_below(tmp_path: Path) -> None:
    result = publish_files(
        tmp_path,
        {
            "pipelines/a.py": HEAD
            + """
@incremental()
@configure(profile="medium")
@transform.spark.using(out=TableOutput("/x/a"))
def above(ctx, out): ...

@transform.using(source=TableInput("/x/a", branch="feature"), out=TableOutput("/x/b"))
@configure(profile=["large"])
@incremental(require_incremental=True)
def below(source, out): ...
"""
        },
    )
    above, below = result.jobspecs
    assert (above.profile, above.size, above.incremental) == ("spark", "medium", True)
    assert (below.profile, below.size, below.incremental) == ("light", "large", True)
    assert below.inputs[0].branch == "feature"


def test_transforms_made_in_a_loop_are_told_apart(tmp_path: Path) -> None:
    result = publish_files(
        tmp_path,
        {
            "pipelines/a.py": HEAD
            + """
def make(name):
    @transform.using(out=TableOutput(f"/x/{name}"))
    def compute(out):
        print(name)
    return compute

ALL = [make(name) for name in ("one", "two")]
"""
        },
    )
    assert [(spec.function, spec.outputs[0].path) for spec in result.jobspecs] == [
        ("pipelines.a:compute@/x/one", "/x/one"),
        ("pipelines.a:compute@/x/two", "/x/two"),
    ]
    assert len({spec.digest for spec in result.jobspecs}) == 2


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("import os\n\ndef f(:\n    pass\n", 3, "SyntaxError: invalid syntax"),
        ("import os\n\nimport no_such_library\n", 3, "ModuleNotFoundError: No module named 'no_such_library'"),
        ("\ndef inner():\n    return 1 / 0\n\ninner()\n", 3, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", 1, "SystemExit: 3"),
        (
            HEAD + "@transform.using(a=TableInput('/x/a'))\ndef f(a): ...",
            5,
            "f: a transform needs at least one TableOutput",
        ),
        (HEAD + "@transform.using(a=TableOutput('x'))\ndef f(a): ...", 5, "'x' is no dataset path"),
        (HEAD + "@transform.using(a=TableOutput('/x/a'))\ndef f(b): ...", 5, "has no parameter 'a'"),
        (
            HEAD + "@transform.using(a=TableOutput('/x/a'))\ndef f(a, b): ...",
            5,
            "nothing is declared for parameter 'b'",
        ),
        (
            HEAD + "@transform.using(a=TableOutput('/x/a'), b=TableInput('/x/a'))\ndef f(a, b): ...",
            5,
            "both an input and",
        ),
        (
            HEAD + "@transform.using(a=TableOutput('/x/a'), b=TableOutput('/x/a'))\ndef f(a, b): ...",
            5,
            "two outputs write",
        ),
        (HEAD + "@transform.using(a=5)\ndef f(a): ...", 5, "a transform needs at least one TableOutput"),
        (HEAD + "@transform(a=TableOutput('/x/a'))\ndef f(a): ...", 5, "Write @transform.using"),
        (HEAD + "@configure(profile='huge')\ndef f(a): ...", 5, "one of 'small', 'medium', 'large'"),
        (HEAD + "Check(E.primary_key('a'), 'x', on_error='MAYBE')", 5, "on_error is 'FAIL' or 'WARN'"),
        (HEAD + "Check('a', 'x')", 5, "is not an expectation"),
    ],
)
def test_errors_carry_file_and_line(tmp_path: Path, source: str, line: int, message: str) -> None:
    result = publish_files(tmp_path, {"pipelines/good.py": GOOD, "pipelines/bad.py": source})
    assert result.jobspecs == ()
    (error,) = result.errors
    assert (error.file, error.line) == ("pipelines/bad.py", line)
    assert message in error.message


def test_every_broken_module_is_named(tmp_path: Path) -> None:
    result = publish_files(tmp_path, {"pipelines/a.py": "import nope", "pipelines/b.py": "1/0", "pipelines/c.py": GOOD})
    assert [error.file for error in result.errors] == ["pipelines/a.py", "pipelines/b.py"]


def test_an_error_in_an_imported_module_is_placed_there(tmp_path: Path) -> None:
    result = publish_files(tmp_path, {"pipelines/a.py": "import helpers.b", "helpers/b.py": "\n\nboom()"})
    assert [(error.file, error.line) for error in result.errors] == [("helpers/b.py", 3)]


def test_two_transforms_of_one_dataset_are_refused(tmp_path: Path) -> None:
    result = publish_files(tmp_path, {"pipelines/a.py": GOOD, "pipelines/b.py": GOOD})
    (error,) = result.errors
    assert (error.file, error.line) == ("pipelines/b.py", 6)
    assert "two transforms write /nyc/delays/daily: compute (pipelines/a.py:6) and compute" in error.message


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    source = HEAD + "".join(
        f"\n@transform.using(i=TableInput('/x/{given}'), o=TableOutput('/x/{made}'))\ndef make_{made}(i, o): ...\n"
        for given, made in (("c", "a"), ("a", "b"), ("b", "c"), ("c", "d"))
    )
    (error,) = publish_files(tmp_path, {"pipelines/a.py": source}).errors
    assert "cycle: /x/a needs /x/c needs /x/b needs /x/a" in error.message
    assert error.line


def test_rules_of_review_are_read(tmp_path: Path) -> None:
    text = """
[pipeline]
packages = ["pipelines"]
folders = ["/nyc"]
[datasets."/nyc/delays/daily"]
key = ["day", "carrier"]
ignore = ["built_at"]
tolerance = { mean_delay = 1e-9, count = 1, share = { relative = 1e-6 }, sum = { absolute = 2, relative = 0.5 } }
filter = "carrier = 'UA' and mean_delay > 0"
"""
    result = publish_files(tmp_path, {"pipeline.toml": text, "pipelines/a.py": GOOD})
    assert result.folders == ("/nyc",)
    assert result.datasets == (
        DatasetRules(
            path="/nyc/delays/daily",
            key=("day", "carrier"),
            ignore=("built_at",),
            tolerance={
                "mean_delay": {"absolute": 1e-9},
                "count": {"absolute": 1.0},
                "share": {"relative": 1e-6},
                "sum": {"absolute": 2.0, "relative": 0.5},
            },
            row_filter="carrier = 'UA' and mean_delay > 0",
        ),
    )


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[pipeline]\npackages = [", 2, "Invalid value"),
        ("[pipeline]\n\npackages = 5\n", 3, "packages must be a list of texts"),
        ("[pipeline]\npackages = ['pipelines', 'nope']\n", 2, "there is no package 'nope'"),
        ("[pipeline]\npackages = ['os']\n", 2, "that name is taken"),
        ("[pipeline]\npackages = ['a b']\n", 2, "is no package name"),
        ("[pipeline]\nfolders = ['/nyc/deep']\n", 2, "'/nyc/deep' is no folder"),
        ("[pipeline]\ncolour = 'red'\n", 2, "unknown key 'colour'"),
        ("\n[pipelines]\n", 2, "unknown table [pipelines]"),
        ("\n[datasets.'nyc']\nkey = ['a']\n", 2, "this is no dataset path"),
        ('[datasets."/a/b"]\n\nkey = "day"\n', 3, "key must be a list of texts"),
        ('[datasets."/a/b"]\nsensitive = "email"\n', 2, "sensitive must be a list of texts"),
        ('[datasets."/a/b"]\nsensitive_readers = ["hr"]\n', 2, "sensitive_readers without sensitive columns"),
        ('[datasets."/a/b"]\nsensitive_repositories = ["b"]\n', 2, "sensitive_repositories without sensitive columns"),
        ('[datasets."/a/b"]\nkeys = ["day"]\n', 2, "unknown rule 'keys'"),
        ("\nowners = 5\n", 2, "[owners] must be a table"),
        ('[owners]\n"/a/*" = ["mira"]\n"b/*.py" = "mira"\n', 3, "must list names"),
        ('[owners]\n"/a/*" = []\n', 2, "must list names"),
        ('[owners]\n"/a/*" = ["mira", "group:"]\n', 2, "must list names"),
        ('[owners]\n"" = ["mira"]\n', 1, "a pattern is empty"),
        ('[datasets."/a/b"]\ntolerance = { a = -1 }\n', 2, "tolerance of 'a' must be a number of at least 0"),
        ('[datasets."/a/b"]\ntolerance = { a = nan }\n', 2, "at least 0"),
        ('[datasets."/a/b"]\ntolerance = { a = true }\n', 2, "at least 0"),
        ('[datasets."/a/b"]\ntolerance = 1\n', 2, "a number or a table for each column"),
        ('[datasets."/a/b"]\n\ntolerance = { a = { percent = 1 } }\n', 3, "names 'percent'; there are absolute and"),
        ('[datasets."/a/b".tolerance]\na = 1\nb = {}\n', 3, "tolerance of 'b' is empty"),
        ('[datasets."/a/b"]\n\nfilter = 1\n', 3, "filter must be a text"),
        ('[datasets."/a/b"]\n\nfilter = "a >"\n', 3, "filter 'a >' cannot be read at character 1"),
        ('[datasets."/a/b"]\nkey = ["a"]\nignore = ["a"]\n', 3, "column 'a' is in key and in ignore"),
        ('[datasets."/a/b"]\nkey = ["a"]\ntolerance = { a = 1 }\n', 3, "column 'a' is in key and in tolerance"),
    ],
)
def test_a_bad_pipeline_file_is_placed(tmp_path: Path, text: str, line: int, message: str) -> None:
    result = publish_files(tmp_path, {"pipeline.toml": text, "pipelines/a.py": GOOD})
    assert result.jobspecs == ()
    assert result.errors[0].file == "pipeline.toml"
    assert message in result.errors[0].message
    assert result.errors[0].line == line


SEEDS = {
    "seeds/nyc/carriers.csv": "code,name\nUA,United\n",
    "seeds/nyc/more/days.jsonl": '{"day": 1}\n',
    "seeds/a.md": "",
}


def test_a_seed_becomes_a_jobspec_that_moves_with_its_bytes_and_types(tmp_path: Path) -> None:
    def digests(name: str, **more: str) -> dict[str, str]:
        result = publish_files(tmp_path / name, {**SEEDS, "pipelines/a.py": GOOD, **more})
        assert result.errors == ()
        return {spec.outputs[0].path: spec.digest for spec in result.jobspecs}

    first = digests("first")
    assert sorted(first) == ["/nyc/carriers", "/nyc/delays/daily", "/nyc/more/days"]
    assert digests("same") == first
    typed = digests("typed", **{"pipeline.toml": '[seeds."/nyc/carriers"]\ntypes = { code = "string" }\n'})
    changed = digests("changed", **{"seeds/nyc/carriers.csv": "code,name\nUA,Union\n"})
    for moved in (typed, changed):
        assert {path for path in first if moved[path] != first[path]} == {"/nyc/carriers"}


@pytest.mark.parametrize(
    ("files", "place", "message"),
    [
        ({"seeds/carriers.csv": "a\n1\n"}, "seeds/carriers.csv:1", "seeds/nyc/carriers.csv makes /nyc/carriers"),
        ({"seeds/nyc/my file.csv": "a\n1\n"}, "seeds/nyc/my file.csv:1", "a seed's path is that of its dataset"),
        (
            {"seeds/nyc/a.csv": "a\n1\n", "seeds/nyc/a.parquet": ""},
            "seeds/nyc/a.parquet:1",
            "two transforms write /nyc/a: seeds/nyc/a.csv (seeds/nyc/a.csv:1)",
        ),
        ({"pipeline.toml": '\n[seeds."/nyc/b"]\ntypes = {}\n'}, "pipeline.toml:2", "there is no file seeds/nyc/b"),
        (
            {
                **SEEDS,
                "seeds/nyc/a.parquet": f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n",
            },
            "seeds/nyc/a.parquet:1",
            "a Git LFS pointer",
        ),
        (
            {**SEEDS, "pipeline.toml": '[seeds."/nyc/carriers"]\ntypes = { code = "text" }\n'},
            "pipeline.toml:2",
            "type of 'code' must be one of boolean, int, ",
        ),
        (
            {**SEEDS, "pipeline.toml": '[seeds."/nyc/carriers"]\nkey = ["code"]\n'},
            "pipeline.toml:1",
            "gives the types of columns alone",
        ),
    ],
)
def test_bad_seeds_are_placed(tmp_path: Path, files: dict[str, str], place: str, message: str) -> None:
    (error,) = publish_files(tmp_path, files).errors
    assert f"{error.file}:{error.line}" == place
    assert message in error.message


def test_a_repository_without_transforms_publishes_nothing(tmp_path: Path) -> None:
    result = publish_files(tmp_path, {"README.md": "hello"})
    assert (result.jobspecs, result.errors) == ((), ())


@pytest.mark.parametrize("name", STARTERS)
def test_every_starter_publishes(tmp_path: Path, name: str) -> None:
    folder = STARTER_FILES / name
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.*")}
    files = fill_starter(found, name="my-shop")
    result = publish_files(tmp_path, {path: content.decode() for path, content in files.items()})
    assert result.errors == ()
    assert bool(result.jobspecs) == (name != EMPTY)
    assert not any("FOLDER" in path for path in files), "where the folder's name goes"


def test_the_change_of_the_example_publishes(tmp_path: Path) -> None:
    starters = Path(__file__).parents[3] / "webapp" / "repositories" / "starters"
    files = {str(path.relative_to(starters / "nyc")): path.read_text() for path in (starters / "nyc").rglob("*.*")}
    change = {
        str(path.relative_to(starters / "nyc_change")): path.read_text()
        for path in (starters / "nyc_change").rglob("*.py")
    }
    before = publish_files(tmp_path / "a", files)
    after = publish_files(tmp_path / "b", files | change)
    assert (before.errors, after.errors) == ((), ())
    assert len(before.jobspecs) == 8
    old = {spec.function: spec.digest for spec in before.jobspecs}
    new = {spec.function: spec.digest for spec in after.jobspecs}
    assert {name for name in old if old[name] != new[name]} == {
        "pipelines.clean:clean_flights",
        "pipelines.delays:compute",
        "pipelines.delays:by_carrier",
        "pipelines.late:hours_late",
    }
