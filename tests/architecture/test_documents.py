"""The README and the guide: a door of one and a half screens, links that lead somewhere, blocks that somebody runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

from tests.factories.guide import GUIDE, ROOT, list_blocks, list_documents, read_chapter
from webapp.accounts.rules.sight import SensitiveRule
from webapp.comparisons.rules.dataset_rules import read_dataset_rules
from webapp.core.templatetags.markdown import list_headings
from webapp.repositories.rules.pipeline import read_folders, read_sensitive
from webapp.site.pages.guide import CONTENTS, list_chapters
from webapp.sql.rules.checks import read_check

LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+)/?`")
COMPONENTS = "templates/components/README.md"
BENCHMARKS = {f"bench-{path.stem}" for path in (ROOT / "tests" / "bench").iterdir()}
README_LINES = 70
RUN = {
    "README.md": {"sh"},
    "automation": {"python", "sh"},
    "catalog": {"duckdb", "python", "sh", "sql"},
    "operation": {"sh"},
    "review": {"sql", "toml"},
    "security": {"toml"},
    "states": {"mermaid"},
    "transforms": {"python", "toml"},
}
"""Chapters with blocks in these languages, each of which a test runs; one without a language is a drawing."""
STEP = re.compile(r"^\d+\. `([\w/]+\.(?:py|html))`: (.*?)(?=^\d+\. |\n\n|\Z)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(\w+)\(\)`")
MOST_STEPS = 15
NOT_FOR_PEOPLE = {"TRIBUTARY_SPARK_FOLDER", "TRIBUTARY_SPARK_OPENER", "TRIBUTARY_S3_KEYS"}
"""What one process of an installation tells another."""


def test_readme_is_a_door() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= README_LINES
    assert any(line.startswith("![") for line in lines)


def test_contents_name_every_chapter() -> None:
    assert {chapter.name for chapter in list_chapters()} == {path.stem for path in GUIDE.glob("*.md")}
    assert list_chapters()[0].name == CONTENTS


@pytest.mark.parametrize("document", list_documents())
def test_links_lead_to_files_and_headings(document: str) -> None:
    place = ROOT / document
    for target in LINK.findall(place.read_text()):
        path, _, anchor = target.partition("#")
        file = (place.parent / path).resolve() if path else place
        assert file.is_file(), target
        assert not anchor or f"md-{anchor}" in {heading.anchor for heading in list_headings(file.read_text())}, target
        assert file.parent == GUIDE or document == "README.md", f"{target} is not served at /guide"


@pytest.mark.parametrize("document", [*list_documents(), COMPONENTS])
def test_what_documents_name_is_there(document: str) -> None:
    """Files and folders, commands of make and of manage.py, whenever they stand between backticks."""
    text = (ROOT / document).read_text()
    tops = {path.name for path in ROOT.iterdir()} - {"var"}  # an installation makes that
    named = {path for path in PATH.findall(text) if path.partition("/")[0] in tops}
    assert {path for path in named if not (ROOT / path).exists()} == set()
    targets = set(re.findall(r"^([a-z-]+)(?=[a-z -]*:)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets | BENCHMARKS
    assert set(re.findall(r"`(?:python )?manage\.py (\w+)", text)) <= get_commands().keys()


def test_every_component_is_listed() -> None:
    section = (ROOT / COMPONENTS).read_text().split("\n## Includes")[1].split("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section)) == {path.stem for path in (ROOT / COMPONENTS).parent.glob("*.html")}


def test_every_block_is_run() -> None:
    blocks = {
        document if document == "README.md" else Path(document).stem: {language for language, _ in found} - {""}
        for document, text in list_documents().items()
        if (found := list_blocks(text))
    }
    assert {name: languages for name, languages in blocks.items() if languages} == RUN


def test_commands_of_the_readme_are_targets() -> None:
    ((_, block),) = list_blocks((ROOT / "README.md").read_text())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^make (\S+)", block, re.MULTILINE)
    assert commands == ["run", "test"]
    assert set(commands) <= set(targets)


def test_every_command_that_documents_name_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    programs = {path.stem for path in (ROOT / "webapp").glob("*/management/commands/*.py")} | {"migrate", "check"}
    for document, text in list_documents().items():
        assert [name for name in re.findall(r"`make ([a-z-]+)", text) if not re.search(rf"\b{name}\b", makefile)] == []
        assert {name for name in re.findall(r"manage\.py (\w+)", text)} <= programs, document


def test_every_decision_has_a_number_of_its_own_which_its_title_says() -> None:
    decisions = sorted((ROOT / "webapp" / "decisions").glob("*.md"))
    named = [int(path.name.partition("-")[0]) for path in decisions]
    titled = [int(path.read_text().removeprefix("# ").partition(".")[0]) for path in decisions]

    assert named == titled
    assert len(set(named)) == len(named)


def test_files_of_a_pipeline_are_read() -> None:
    blocks = list_blocks(read_chapter("transforms", "A pipeline repository"))
    ((_, pipeline),) = [block for block in blocks if block[0] == "toml"]
    assert read_folders(pipeline.encode()) == ("nyc",)
    assert tomllib.loads(pipeline)["pipeline"]["packages"] == ["pipelines"]

    ((_, text),) = list_blocks(read_chapter("review", "Review rules"))
    rules = read_dataset_rules(text)["/nyc/delays/daily"]
    assert (rules.key, rules.ignore, rules.row_filter) == (("day", "carrier"), ("built_at",), "carrier != 'YV'")
    assert rules.tolerance == {
        "mean_delay": {"absolute": 1e-9},
        "share": {"relative": 1e-6},
        "total": {"absolute": 0.5, "relative": 1e-3},
    }

    ((_, text),) = list_blocks(read_chapter("security", "Sensitive columns"))
    assert read_sensitive(text.encode()) == {
        "/nyc/people": SensitiveRule(("email", "birthday"), ("stewards",), ("payroll",))
    }


def test_every_setting_is_described() -> None:
    code = Path(settings.BASE_DIR, "webapp", "config", "settings.py").read_text()
    read = set(re.findall(r'(?:environ\.get|read_secret)\("((?:TRIBUTARY|DATABASE|CELERY|SPARK)_\w+)"', code))
    described = set(re.findall(r"`([A-Z0-9_]{6,})`", read_chapter("operation")))
    assert read - described - NOT_FOR_PEOPLE == set()


@pytest.mark.parametrize("walk", ["Commit code", "Commit a table", "Merge", "Add a field"])
def test_walks_are_as_the_code_goes(walk: str) -> None:
    text = read_chapter("walks", walk)
    steps = STEP.findall(text)
    assert 10 < len(steps) <= MOST_STEPS
    assert [path for path in re.findall(r"`([\w/]+\.(?:py|html))`", text) if not (ROOT / path).is_file()] == []
    for path, said in steps:
        code = (ROOT / path).read_text()
        missing = [name for name in NAMED.findall(said) if not _defines(code, name)]
        assert not missing, f"{path} has no {missing}"


def _defines(code: str, name: str) -> bool:
    return bool(re.search(rf"^ *(async )?def {name}\(", code, re.MULTILINE))


def test_changelog_names_the_version_and_tells_fixes_from_features() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert releases[0].startswith(f"{project['version']} - ")
    for release in releases:
        assert re.findall(r"^### (.*)$", release, re.MULTILINE) == ["Added", "Changed", "Fixed", "Security"]
    entries = re.findall(r"^- .*$", text, re.MULTILINE)
    assert len(entries) == len(set(entries))


def test_the_check_of_the_guide_is_one() -> None:
    ((_, text),) = list_blocks(read_chapter("review", "Queries as checks"))
    assert str(read_check(text)) == "empty"
