"""How much is built without need: on twenty ordinary commits, and on the demo's code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.factories import freshness as tree
from tests.factories.code_kinds import HEAD
from tests.factories.jobs import publish_files

pytestmark = pytest.mark.slow
DEMO = Path(__file__).parents[2] / "webapp" / "repositories" / "starters" / "nyc"
SHOP = {
    "README.md": "# Shop\n",
    "pipeline.toml": '[pipeline]\npackages = ["shop"]\n',
    "shop/__init__.py": "",
    "shop/money.py": (
        '"""Money."""\n\nRATE = 1.1\n\n\ndef to_euro(value):\n    return round(value * RATE, 2)\n\n\n'
        "def format_euro(value):\n    return f'{to_euro(value)} EUR'\n\n\ndef net(value, tax=0.2):\n    return value * (1 - tax)\n"
    ),
    "shop/settings.py": "import json\nfrom pathlib import Path\n\nLIMITS = json.loads((Path(__file__).parent / 'limits.json').read_text())\n",
    "shop/limits.json": '{"large": 100, "late": 3}',
    "shop/sql/top.sql": "SELECT 1",
    "shop/sql/bottom.sql": "SELECT 2",
    "shop/orders.py": HEAD
    + (
        "from shop.money import net, to_euro\n\nORDERS = [10, 20, 300]\nLARGE = 100\nWORDS = ['a', 'b']\n\n\n"
        "def is_large(order):\n    return order > LARGE\n\n\ndef count_words(words):\n    return len(words)\n\n\n"
        '@transform.using(out=TableOutput("/shop/large"))\ndef large(out):\n    """Large orders."""\n    out.write([o for o in ORDERS if is_large(o)])\n\n\n'
        '@transform.using(out=TableOutput("/shop/total"))\ndef total(out):\n    out.write(to_euro(sum(ORDERS)))\n\n\n'
        '@transform.using(out=TableOutput("/shop/net"))\ndef net_total(out):\n    out.write(net(sum(ORDERS)))\n\n\n'
        '@transform.using(out=TableOutput("/shop/words"))\ndef words(out):\n    out.write(count_words(WORDS))\n'
    ),
    "shop/customers.py": HEAD
    + (
        "from shop.money import format_euro\nfrom shop.settings import LIMITS\n\nCUSTOMERS = {'ann': 5, 'bob': 150}\n\n\n"
        '@transform.using(out=TableOutput("/shop/best"))\ndef best(out):\n    out.write({n: format_euro(v) for n, v in CUSTOMERS.items()})\n\n\n'
        '@transform.using(out=TableOutput("/shop/big"))\ndef big(out):\n    out.write([n for n, v in CUSTOMERS.items() if v > LIMITS["large"]])\n'
    ),
    "shop/reports.py": HEAD
    + (
        "from pathlib import Path\n\nSQL = Path(__file__).parent / 'sql'\n\n\n"
        '@transform.using(out=TableOutput("/shop/top"))\ndef top(out):\n    out.write((SQL / "top.sql").read_text())\n\n\n'
        '@transform.using(out=TableOutput("/shop/bottom"))\ndef bottom(out):\n    out.write((SQL / "bottom.sql").read_text())\n'
    ),
}  # fmt: skip
NEW_TRANSFORM = '\n\n@transform.using(out=TableOutput("/shop/new"))\ndef new(out):\n    out.write(1)\n'
COMMITS: tuple[tuple[tuple[str, str, str], ...], ...] = (
    (("shop/orders.py", "LARGE = 100", "LARGE = 15"),),
    (("shop/orders.py", "'a', 'b'", "'a', 'b', 'c'"),),
    (("shop/orders.py", "len(words)", "len(words) + 1"),),
    (("shop/orders.py", "sum(ORDERS)))\n\n\n@transform.using(out=TableOutput(\"/shop/net", "sum(ORDERS) + 1))\n\n\n@transform.using(out=TableOutput(\"/shop/net"),),
    (("shop/orders.py", "300]", "400]"),),
    (("shop/money.py", "RATE = 1.1", "RATE = 1.2"),),
    (("shop/money.py", "tax=0.2", "tax=0.25"),),
    (("shop/money.py", " EUR'", " €'"),),
    (("shop/money.py", '"""Money."""', '"""Money and its formats."""'),),
    (("shop/money.py", "def net", "def gross(value):\n    return value * 1.2\n\n\ndef net"),),
    (("shop/limits.json", '"large": 100', '"large": 1'),),
    (("shop/sql/top.sql", "SELECT 1", "SELECT 11"),),
    (("shop/sql/bottom.sql", "SELECT 2", "SELECT 22"),),
    (("shop/customers.py", "'ann': 5", "'ann': 500"),),
    (("shop/customers.py", "if v > ", "if v >= 2 * "),),
    (("shop/orders.py", '"/shop/words"))\ndef words(out):\n    out.write(count_words(WORDS))\n', '"/shop/words"))\ndef words(out):\n    out.write(count_words(WORDS))\n' + NEW_TRANSFORM),),
    (("shop/orders.py", "def is_large(order):\n", "def is_large(order):\n    # an order of more than the limit\n"),),
    (("README.md", "# Shop", "# The shop"), ("shop/reports.py", "\n\n\n@", "\n\n\n\n@")),
    (("shop/new_module.py", "", HEAD + NEW_TRANSFORM), ("shop/orders.py", "return order > LARGE", "return order >= LARGE - 90")),
    (("shop/orders.py", '"""Large orders."""', '"""Orders above the limit."""'), ("shop/sql/unused.sql", "", "SELECT 3")),
)  # fmt: skip


def test_twenty_ordinary_commits_build_little_without_need(tmp_path: Path) -> None:
    assert len(COMMITS) == 20
    before = tree.publish_tree(tmp_path / "before", SHOP)
    stale = changed = 0
    for number, edits in enumerate(COMMITS):
        files: Mapping[str, str] = SHOP
        for path, old, new in edits:
            files = tree.edit(files, path, old, new)
        after = tree.publish_tree(tmp_path / str(number), files)
        assert tree.list_wrong(before, after) == set(), edits
        stale += len(tree.list_stale(before, after))
        changed += len(tree.list_changed(before, after))
    print(f"{stale} out of date, {changed} with another answer")
    assert changed > 15
    assert stale <= 1.5 * changed


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("clean.py", 'ORIGINS = ["EWR"', 'ORIGINS = ["BOS", "EWR"', {"clean_flights"}),
        ("clean.py", 'how="left"', 'how="inner"', {"clean_flights"}),
        ("delays.py", "LATE = 15", "LATE = 20", {"compute"}),
        ("delays.py", "def per_day", "def unused():\n    return 1\n\n\ndef per_day", set()),
        ("delays.py", '"dep_delay", "max")]', '"dep_delay", "min")]', {"by_carrier"}),
        ("late.py", "HOURS_LATE = 180", "HOURS_LATE = 240", {"hours_late"}),
        ("weather.py", "METRES_PER_MILE = 1609.344", "METRES_PER_MILE = 1609", {"clean_weather"}),
        ("weather.py", '"""Hourly weather in metric units."""', '"""Hourly weather."""', set()),
        ("routes.py", "1.609344", "1.6", {"summarise_routes"}),
        ("fleet.py", "2013", "2014", {"fleet_usage"}),
        ("__init__.py", "", "# nothing\n", set()),
    ],
)
def test_demo_edits_are_precise(tmp_path: Path, file: str, old: str, new: str, names: set[str]) -> None:
    files = {
        str(path.relative_to(DEMO)): path.read_text() for path in DEMO.rglob("*") if path.suffix in (".py", ".toml")
    }
    before = publish_files(tmp_path / "before", files)
    after = publish_files(tmp_path / "after", tree.edit(files, f"pipelines/{file}", old, new))
    digests = {spec.function: spec.digest for spec in before.jobspecs}
    assert {
        spec.function.partition(":")[2] for spec in after.jobspecs if digests[spec.function] != spec.digest
    } == names


ORDINARY = (
    "import contextlib, dataclasses, enum, functools\nfrom collections.abc import Mapping\nfrom shop import spare, used\n\n\n"
    '@dataclasses.dataclass(frozen=True)\nclass Order:\n    """One."""\n\n    size: int = 1\n\n\n'
    'class Colour(enum.StrEnum):\n    """One."""\n\n    RED = \'red\'\n\n\n'
    "def count(rows: Mapping[str, list[int]] | None = None) -> int | None:\n    return 1\n\n\n"
    "@functools.cache\ndef load(path: str) -> str:\n    return path + '1'\n\n\n"
    "@contextlib.contextmanager\ndef step(name):\n    yield 1\n\n\n"
    "by_size = lambda order: order.size + 1\nFOLDER = 'data'\nFILE = f'{FOLDER}/1'\n\n\n"
    "@transform.using(out=TableOutput('/shop/a'))\ndef compute(out):\n    out.write([used(), Order(), Colour.RED])\n"
)


def test_definitions_that_are_not_used_do_not_count(tmp_path: Path) -> None:
    files = {
        "pipelines/a.py": HEAD.replace("transform, incremental, configure, Check", "transform") + ORDINARY,
        "shop/__init__.py": "from .inner import spare, used\n\n__all__ = ['used', 'spare']\n",
        "shop/inner.py": "def used():\n    return 0\n\n\ndef spare():\n    return 1\n",
    }
    changed = {path: text.replace("One.", "Two.").replace("1\n\n\n", "2\n\n\n") for path, text in files.items()}
    changed["pipelines/a.py"] = (
        changed["pipelines/a.py"].replace("size: int = 2", "size: int = 1").replace("/1'", "/2'")
    )
    changed["shop/inner.py"] = files["shop/inner.py"].replace("return 1", "return 2")
    assert all(changed[path] != files[path] for path in ("pipelines/a.py", "shop/inner.py"))
    (before,) = publish_files(tmp_path / "before", files).jobspecs
    (after,) = publish_files(tmp_path / "after", changed).jobspecs
    assert before.digest == after.digest


def test_values_that_cannot_be_compared_make_everything_count(tmp_path: Path) -> None:
    source = HEAD + (
        "\nclass Lock:\n    __slots__ = ()\n\ndef make(held):\n    @transform.using(out=TableOutput('/x/a'))\n"
        "    def compute(out):\n        out.write(held)\n\nmake(iter([1]))\n"
    )
    files = {"pipelines/a.py": source, "pipelines/b.py": "X = 1\n"}
    (before,) = publish_files(tmp_path / "before", files).jobspecs
    assert "list_iterator" in before.why_all
    (other,) = publish_files(tmp_path / "other", {**files, "pipelines/b.py": "X = 2\n"}).jobspecs
    (same,) = publish_files(tmp_path / "same", {**files, "pipelines/b.py": "X = 1  # one\n"}).jobspecs
    assert before.digest == same.digest != other.digest


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("make(iter([1]))", "list_iterator"),
        ("make(pathlib.Path('/data/x.csv'))", "the path /data/x.csv, which is outside of the repository"),
        (
            "exec(compile('''@transform.using(out=TableOutput('/x/a'))\ndef f(out): pass''', '<text>', 'exec'))",
            "not written",
        ),
        ("make(pathlib.Path(__file__).parent / 'x.csv')", ""),
    ],
)
def test_why_the_whole_repository_counts(tmp_path: Path, declared: str, reason: str) -> None:
    source = HEAD + (
        "import pathlib\n\ndef make(held):\n    @transform.using(out=TableOutput('/x/a'))\n"
        f"    def compute(out):\n        out.write(held)\n\n{declared}\n"
    )
    (spec,) = publish_files(tmp_path / "code", {"pipelines/a.py": source}).jobspecs
    assert reason in spec.why_all
    assert bool(reason) == bool(spec.why_all)
