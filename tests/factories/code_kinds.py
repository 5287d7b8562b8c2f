"""Ways in which the answer of a transform depends on a repository: each with places where it can be changed.

A kind writes files and an expression for the body of a transform. `{n}` is the number of the transform, so that several
kinds live in one repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD = "from transforms.api import transform, incremental, configure, Check\nfrom transforms.tables import TableInput, TableOutput\n"


@dataclass(frozen=True)
class Kind:
    """One way to depend on a repository."""

    name: str
    value: str
    """An expression that the transform writes."""
    top: str = ""
    """Code above the transform in its module."""
    files: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[tuple[str, str, str], ...] = ()
    """File (empty: the transform's module), old text, new text. Some change the answer, some do not."""
    below: str | None = None
    """Declares the transform in place of the ordinary declaration."""


KINDS = (
    Kind("constant", "LIMIT{n} * 2", top="LIMIT{n} = 21\n", edits=(("", "LIMIT{n} = 21", "LIMIT{n} = 22"),)),
    Kind(
        "helper",
        "scale{n}(2)",
        top="from pipelines.helper{n} import scale{n}\n",
        files={"pipelines/helper{n}.py": "FACTOR = 3\n\ndef scale{n}(x):\n    return x * FACTOR\n\ndef unused(x):\n    return x\n"},
        edits=(
            ("pipelines/helper{n}.py", "FACTOR = 3", "FACTOR = 4"),
            ("pipelines/helper{n}.py", "x * FACTOR", "x + FACTOR"),
            ("pipelines/helper{n}.py", "return x\n", "return -x\n"),
        ),
    ),
    Kind(
        "star_in_try",
        "star{n}",
        top="try:\n    from pipelines.star{n} import *\nexcept ImportError:\n    star{n} = None\n",
        files={"pipelines/star{n}.py": "star{n} = 1\n"},
        edits=(("pipelines/star{n}.py", "star{n} = 1", "star{n} = 2"),),
    ),
    Kind(
        "lazy_import",
        "late{n}()",
        top="def late{n}():\n    from pipelines.late{n} import VALUE\n    return VALUE\n",
        files={"pipelines/late{n}.py": "VALUE = 1\nOTHER = 1\n"},
        edits=(("pipelines/late{n}.py", "VALUE = 1", "VALUE = 2"), ("pipelines/late{n}.py", "VALUE = 1", "VALUE = 1  # one")),
    ),
    Kind(
        "import_module",
        "importlib.import_module('lazy.m{n}').VALUE",
        top="import importlib\n",
        files={"lazy/__init__.py": "", "lazy/m{n}.py": "VALUE = 1\n"},
        edits=(("lazy/m{n}.py", "VALUE = 1", "VALUE = 2"), ("lazy/__init__.py", "", "import builtins\n")),
    ),
    Kind(
        "missing_module",
        "optional{n}()",
        top="def optional{n}():\n    try:\n        import pipelines.extra{n} as extra\n    except ImportError:\n        return 0\n    return extra.VALUE\n",
        edits=(("pipelines/extra{n}.py", "", "VALUE = 1\n"),),
    ),
    Kind(
        "registry",
        "RULES{n}['a'](2)",
        top=(
            "RULES{n} = {}\n\ndef rule{n}(name):\n    def add(function):\n        RULES{n}[name] = function\n        return function\n"
            "    return add\n\n@rule{n}('a')\ndef first{n}(x):\n    return x + 1\n"
        ),
        edits=(("", "return x + 1", "return x + 2"),),
    ),
    Kind(
        "singledispatch",
        "show{n}(2)",
        top=(
            "import functools\n\n@functools.singledispatch\ndef show{n}(x):\n    return 'other'\n\n@show{n}.register\n"
            "def _(x: int):\n    return f'int {x}'\n"
        ),
        edits=(("", "f'int {x}'", "f'number {x}'"),),
    ),
    Kind(
        "subclasses",
        "sum(kind.weight for kind in Base{n}.__subclasses__())",
        top="from pipelines.base{n} import Base{n}\nimport pipelines.sub{n}\n",
        files={
            "pipelines/base{n}.py": "class Base{n}:\n    weight = 1\n",
            "pipelines/sub{n}.py": "from pipelines.base{n} import Base{n}\n\nclass Sub(Base{n}):\n    weight = 2\n",
        },
        edits=(("pipelines/sub{n}.py", "weight = 2", "weight = 3"),),
    ),
    Kind(
        "plugins",
        "sorted(PLUGINS{n})",
        top=(
            "import importlib, pkgutil\nimport plug{n}\nPLUGINS{n} = [importlib.import_module(f'plug{n}.{found.name}').VALUE "
            "for found in pkgutil.iter_modules(plug{n}.__path__)]\n"
        ),
        files={"plug{n}/__init__.py": "", "plug{n}/one.py": "VALUE = 1\n"},
        edits=(("plug{n}/one.py", "VALUE = 1", "VALUE = 2"), ("plug{n}/two.py", "", "VALUE = 7\n")),
    ),
    Kind(
        "patch",
        "int.__name__ + str(pipelines.target{n}.VALUE)",
        top="import pipelines.target{n}\nimport pipelines.patch{n}\n",
        files={
            "pipelines/target{n}.py": "VALUE = 0\n",
            "pipelines/patch{n}.py": "import pipelines.target{n}\npipelines.target{n}.VALUE = 5\n",
        },
        edits=(("pipelines/patch{n}.py", "VALUE = 5", "VALUE = 6"),),
    ),
    Kind("update", "D{n}['x']", top="D{n} = {'x': 1}\n_ = D{n}.update(x=2)\n", edits=(("", "update(x=2)", "update(x=3)"),)),
    Kind(
        "globals",
        "globals()['secret{n}']()",
        top="def secret{n}():\n    return 1\n",
        edits=(("", "def secret{n}():\n    return 1", "def secret{n}():\n    return 2"),),
    ),
    Kind(
        "getattr",
        "getattr(pipelines.lookup{n}, 'say_' + 'it')()",
        top="import pipelines.lookup{n}\n",
        files={"pipelines/lookup{n}.py": "def say_it():\n    return 1\n"},
        edits=(("pipelines/lookup{n}.py", "return 1", "return 2"),),
    ),
    Kind(
        "module_getattr",
        "pipelines.dynamic{n}.anything",
        top="import pipelines.dynamic{n}\n",
        files={"pipelines/dynamic{n}.py": "def __getattr__(name):\n    if name != 'anything':\n        raise AttributeError(name)\n    return 1\n"},
        edits=(("pipelines/dynamic{n}.py", "return 1", "return 2"),),
    ),
    Kind(
        "sys_path",
        "onpath{n}.VALUE",
        top="import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent.parent / 'vendor'))\nimport onpath{n}\n",
        files={"vendor/onpath{n}.py": "VALUE = 1\n"},
        edits=(("vendor/onpath{n}.py", "VALUE = 1", "VALUE = 2"),),
    ),
    Kind(
        "json_at_import",
        "CONF{n}['a']",
        top="import json, pathlib\nCONF{n} = json.loads((pathlib.Path(__file__).parent / 'conf{n}.json').read_text())\n",
        files={"pipelines/conf{n}.json": '{"a": 1}'},
        edits=(("pipelines/conf{n}.json", '{"a": 1}', '{"a": 2}'),),
    ),
    Kind(
        "sql_at_run",
        "open('sql/q{n}.sql').read()",
        files={"sql/q{n}.sql": "SELECT 1"},
        edits=(("sql/q{n}.sql", "SELECT 1", "SELECT 2"),),
    ),
    Kind(
        "resources",
        "importlib.resources.files('pipelines').joinpath('text{n}.toml').read_text()",
        top="import importlib.resources\n",
        files={"pipelines/text{n}.toml": "a = 1"},
        edits=(("pipelines/text{n}.toml", "a = 1", "a = 2"),),
    ),
    Kind(
        "get_data",
        "pkgutil.get_data('pipelines', 'raw{n}.bin').decode()",
        top="import pkgutil\n",
        files={"pipelines/raw{n}.bin": "one"},
        edits=(("pipelines/raw{n}.bin", "one", "two"),),
    ),
    Kind(
        "cached_loader",
        "load_conf('c{n}')",
        top="from shared.loader import load_conf\n",
        files={
            "shared/__init__.py": "",
            "shared/loader.py": (
                "import functools, pathlib\n\n@functools.cache\ndef load_all():\n"
                "    return {p.stem: p.read_text() for p in pathlib.Path(__file__).parent.glob('*.txt')}\n\n"
                "def load_conf(name):\n    return load_all()[name]\n"
            ),
            "shared/c{n}.txt": "1",
        },
        edits=(("shared/c{n}.txt", "1", "2"),),
    ),
    Kind(
        "polars_csv",
        "pl.read_csv('data/p{n}.csv')['a'].sum()",
        top="import polars as pl\n",
        files={"data/p{n}.csv": "a\n1\n"},
        edits=(("data/p{n}.csv", "a\n1\n", "a\n2\n"),),
    ),
    Kind(
        "duckdb_csv",
        "duckdb.sql(\"SELECT sum(a) FROM 'data/d{n}.csv'\").limit(1).fetchall()[0][0]",
        top="import duckdb\n",
        files={"data/d{n}.csv": "a\n1\n"},
        edits=(("data/d{n}.csv", "a\n1\n", "a\n2\n"),),
    ),
    Kind(
        "listing",
        "sorted(p.name for p in pathlib.Path('queue{n}').iterdir())",
        top="import pathlib\n",
        files={"queue{n}/a.txt": "x"},
        edits=(("queue{n}/b.txt", "", "x"), ("queue{n}/a.txt", "x", "y")),
    ),
    Kind(
        "flag",
        "os.path.exists('flags/on{n}')",
        top="import os\n",
        edits=(("flags/on{n}", "", "x"),),
    ),
    Kind(
        "subprocess",
        "subprocess.check_output(['cat', 'data/s{n}.txt']).decode()",
        top="import subprocess\n",
        files={"data/s{n}.txt": "one"},
        edits=(("data/s{n}.txt", "one", "two"),),
    ),
    Kind(
        "thread",
        "POOL{n}().submit(pathlib.Path('data/t{n}.txt').read_text).result()",
        top="import pathlib\nfrom concurrent.futures import ThreadPoolExecutor as POOL{n}\n",
        files={"data/t{n}.txt": "one"},
        edits=(("data/t{n}.txt", "one", "two"),),
    ),
    Kind(
        "exec_file",
        "run_text{n}()",
        top="def run_text{n}():\n    scope = {}\n    exec(open('scripts/e{n}.py').read(), scope)\n    return scope['VALUE']\n",
        files={"scripts/e{n}.py": "VALUE = 1\n"},
        edits=(("scripts/e{n}.py", "VALUE = 1", "VALUE = 2"),),
    ),
    Kind(
        "run_path",
        "runpy.run_path('scripts/r{n}.py')['VALUE']",
        top="import runpy\n",
        files={"scripts/r{n}.py": "VALUE = 1\n"},
        edits=(("scripts/r{n}.py", "VALUE = 1", "VALUE = 2"),),
    ),
    Kind(
        "docstring",
        "described{n}.__doc__",
        top='def described{n}():\n    """One."""\n',
        edits=(("", '"""One."""', '"""Two."""'),),
    ),
    Kind(
        "source",
        "inspect.getsource(written{n})",
        top="import inspect\n\ndef written{n}():\n    return 1  # one\n",
        edits=(("", "# one", "# two"),),
    ),
    Kind(
        "wrapped",
        "wrapped{n}_value",
        files={
            "tools/__init__.py": "",
            "tools/wrap{n}.py": (
                "import functools\n\ndef twice(function):\n    @functools.wraps(function)\n    def run(out):\n"
                "        class Both:\n            def write(self, value):\n                out.write([value] * 2)\n"
                "        function(Both())\n    return run\n"
            ),
        },
        top="from tools.wrap{n} import twice as twice{n}\nwrapped{n}_value = 1\n",
        below='@transform.using(out=TableOutput("/x/t{n}"))\n@twice{n}\ndef compute{n}(out):\n    out.write({value})\n',
        edits=(("tools/wrap{n}.py", "* 2", "* 3"), ("", "wrapped{n}_value = 1", "wrapped{n}_value = 2")),
    ),
    Kind(
        "factory",
        "0",
        files={
            "tools/__init__.py": "",
            "tools/factory{n}.py": HEAD
            + (
                "\ndef make(path, weight):\n    @transform.using(out=TableOutput(path))\n    def made(out):\n"
                "        out.write(weight + 1)\n    return made\n"
            ),
        },
        top="from tools.factory{n} import make as make{n}\n",
        below='MADE{n} = make{n}("/x/t{n}", 1)\n',
        edits=(("tools/factory{n}.py", "weight + 1", "weight + 2"), ("", '"/x/t{n}", 1)', '"/x/t{n}", 5)')),
    ),
    Kind(
        "closure",
        "0",
        top=(
            "import datetime, decimal, dataclasses, functools\n\n@dataclasses.dataclass\nclass Setting{n}:\n    weight: int\n\n"
            "def declare{n}(*held):\n    @transform.using(out=TableOutput('/x/t{n}'))\n    def held_by(out):\n"
            "        out.write([sorted(h, key=repr) if isinstance(h, (set, frozenset)) else h() if callable(h) else str(h) for h in held])\n"
        ),
        below=(
            "declare{n}({'a', 'b', 'c'}, frozenset({1, 2}), datetime.date(2026, 1, 1), decimal.Decimal('1.0'), Setting{n}(1),\n"
            "    functools.partial(int, '7'))\n"
        ),
        edits=(
            ("", "{'a', 'b', 'c'}", "{'a', 'b', 'd'}"),
            ("", "date(2026, 1, 1)", "date(2026, 1, 2)"),
            ("", "Decimal('1.0')", "Decimal('1.00')"),
            ("", "Setting{n}(1)", "Setting{n}(2)"),
            ("", "partial(int, '7')", "partial(int, '8')"),
        ),
    ),
    Kind(
        "loop_over_a_set",
        "0",
        below=(
            "def each{n}(name):\n    @transform.using(out=TableOutput(f'/x/t{n}{name}'))\n    def made(out):\n        out.write(name)\n\n"
            "for name{n} in {'a', 'b', 'c'}:\n    each{n}(name{n})\n"
        ),
        edits=(("", "out.write(name)", "out.write(name * 2)"),),
    ),
    Kind(
        "package_relative",
        "renamed{n}(1)",
        top="from inner{n} import public as renamed{n}\n",
        files={
            "inner{n}/__init__.py": "from . import deep\nfrom .deep import _private as public\n",
            "inner{n}/deep.py": "def _private(x):\n    return x + 1\n\ndef spare():\n    return 1\n",
        },
        edits=(("inner{n}/deep.py", "x + 1", "x + 2"), ("inner{n}/deep.py", "    return 1\n", "    return 2\n")),
    ),
    Kind(
        "check",
        "1",
        top="from transforms import expectations as E\nALLOWED{n} = {'x', 'y', 'z'}\n",
        below=(
            "@transform.using(out=TableOutput('/x/t{n}', checks=Check(E.in_set('v', ALLOWED{n}), 'known')))\n"
            "def compute{n}(out):\n    out.write({value})\n"
        ),
        edits=(("", "{'x', 'y', 'z'}", "{'z', 'y', 'x'}"),),
    ),
    Kind(
        "class_method",
        "Maker{n}().make()",
        top="class Maker{n}:\n    def make(self):\n        return 1\n\n    def unused(self):\n        return 1\n",
        edits=(("", "make(self):\n        return 1", "make(self):\n        return 2"),),
    ),
    Kind(
        "default",
        "0",
        below="@transform.using(out=TableOutput('/x/t{n}'))\ndef compute{n}(out, weight=3):\n    out.write(weight)\n",
        edits=(("", "weight=3", "weight=4"),),
    ),
    Kind(
        "size",
        "(os.path.getsize('data/z{n}.txt'), [entry.stat().st_size for entry in os.scandir('scan{n}')])",
        top="import os\n",
        files={"data/z{n}.txt": "one", "scan{n}/a.txt": "one"},
        edits=(("data/z{n}.txt", "one", "three"), ("scan{n}/a.txt", "one", "three")),
    ),
    Kind(
        "find_spec",
        "importlib.util.find_spec('pipelines.found{n}') is None",
        top="import importlib.util\nHAS{n} = importlib.util.find_spec('pipelines.seen{n}') is None\n",
        edits=(("pipelines/found{n}.py", "", "X = 1\n"), ("pipelines/seen{n}.py", "", "X = 1\n")),
    ),
    Kind(
        "native_listing",
        "duckdb.sql(\"FROM glob('pipelines/g{n}*.csv')\").fetchall()",
        top="import duckdb\n",
        edits=(("pipelines/g{n}.csv", "", "a\n1\n"),),
    ),
    Kind(
        "entered_folder",
        "enter{n}()",
        top=(
            "import os, sqlite3\n\ndef enter{n}():\n    try:\n        sqlite3.connect('file:data/b{n}.db?mode=ro', uri=True)\n"
            "        return 'base'\n    except sqlite3.OperationalError:\n        pass\n    try:\n        os.chdir('enter{n}')\n"
            "    except OSError:\n        return None\n    return 'folder'\n"
        ),
        edits=(("enter{n}/a.txt", "", "x"), ("data/b{n}.db", "", "x")),
    ),
    Kind(
        "open_folder",
        "inside{n}()",
        top=(
            "import os\n\ndef inside{n}():\n    folder = os.open('pipelines', os.O_RDONLY)\n    try:\n"
            "        return os.stat('w{n}.txt', dir_fd=folder).st_size\n    except OSError:\n        return None\n"
        ),
        edits=(("pipelines/w{n}.txt", "", "x"),),
    ),
    Kind("program", "subprocess.call(['test', '-e', 'flags/p{n}'])", top="import subprocess\n", edits=(("flags/p{n}", "", "x"),)),
    Kind(
        "fork",
        "ask{n}()",
        top=(
            "import os\n\ndef ask{n}():\n    read, write = os.pipe()\n    child = os.fork()\n    if child == 0:\n"
            "        os.write(write, str(os.path.exists('flags/f{n}')).encode())\n        os._exit(0)\n    os.waitpid(child, 0)\n"
            "    return os.read(read, 9)\n"
        ),
        edits=(("flags/f{n}", "", "x"),),
    ),
    Kind(
        "spawn",
        "spawn{n}()",
        top=(
            "import os\n\ndef spawn{n}():\n    from multiprocessing.util import spawnv_passfds\n"
            "    child = spawnv_passfds(b'/usr/bin/test', [b'test', b'-e', b'flags/s{n}'], [])\n    return os.waitpid(child, 0)[1]\n"
        ),
        edits=(("flags/s{n}", "", "x"),),
    ),
    Kind(
        "used_up",
        "REST{n}",
        top="ROWS{n} = iter([1, 2, 3, 4])\nONE{n} = list(ROWS{n})\nREST{n} = list(ROWS{n})\n",
        edits=(("", "ONE{n} = list(ROWS{n})\n", ""),),
    ),
    Kind(
        "default_item",
        "len(COUNTS{n})",
        top="import collections\nCOUNTS{n} = collections.defaultdict(int)\nPEEK{n} = COUNTS{n}['x']\n",
        edits=(("", "PEEK{n} = COUNTS{n}['x']\n", ""), ("", "PEEK{n} =", "def unused{n}(x: COUNTS{n}['y']):\n    pass\n\nPEEK{n} =")),
    ),
    Kind(
        "active_attribute",
        "len(READ{n})",
        top="from settings{n} import SETTINGS, READ as READ{n}\nWEIGHT{n} = SETTINGS.weight\n",
        files={
            "settings{n}.py": (
                "READ = []\n\nclass Settings:\n    @property\n    def weight(self):\n        READ.append(1)\n\nSETTINGS = Settings()\n"
            )
        },
        edits=(("", "WEIGHT{n} = SETTINGS.weight\n", ""),),
    ),
    Kind(
        "rebound_import",
        "list(SEEN{n})",
        top="from own{n} import sorted, SEEN as SEEN{n}\nfrom own{n} import *\nIDS{n} = sorted((2, 1))\n",
        files={
            "own{n}.py": "SEEN = []\n\ndef sorted(items):\n    SEEN.append(items)\n\nclass re:\n    compile = SEEN.append\n",
        },
        below=(
            "import re\ntry:\n    from own{n} import re\nexcept ImportError:\n    pass\nWORD{n} = re.compile('a')\n\n"
            '@transform.using(out=TableOutput("/x/t{n}"))\ndef compute{n}(out):\n    out.write({value})\n'
        ),
        edits=(("", "sorted((2, 1))", "sorted((3, 1))"), ("", "compile('a')", "compile('b')")),
    ),
    Kind(
        "docstring_by_name",
        "getattr(about{n}, '__doc__')",
        top='def about{n}():\n    """One."""\n',
        edits=(("", '"""One."""', '"""Two."""'),),
    ),
    Kind(
        "own_names",
        "getattr(sys.modules[__name__], 'say_' + WHICH{n})()",
        top="import sys\nWHICH{n} = 'it'\n\ndef say_it():\n    return 1\n",
        edits=(("", "return 1", "return 2"),),
    ),
    Kind(
        "late_module_names_it",
        "late{n}()",
        top="import pipelines.base{n} as base{n}\n\ndef late{n}():\n    import lazy.ask{n}\n    return lazy.ask{n}.call(base{n}.MAKER)\n",
        files={
            "pipelines/base{n}.py": "class Maker:\n    def make(self):\n        return 0\n\nMAKER = Maker()\n\ndef hidden():\n    return 1\n",
            "lazy/ask{n}.py": "import sys\n\ndef call(maker):\n    return sys.modules[type(maker).__module__].hidden()\n",
        },
        edits=(("pipelines/base{n}.py", "return 1", "return 2"),),
    ),
    Kind(
        "module_as_value",
        "'{{0.VAL{}}}'.format(REST{n}).format(pipelines.values{n})",
        top="import pipelines.values{n}\nREST{n} = 'UE'\n",
        files={"pipelines/values{n}.py": "VALUE = 1\n"},
        edits=(("pipelines/values{n}.py", "VALUE = 1", "VALUE = 2"),),
    ),
    Kind(
        "query_names_it",
        "duckdb.sql(pathlib.Path('sql/alias{n}.sql').read_text()).fetchall()",
        top=(
            "import duckdb, pathlib\nimport polars as pl\nOLD{n} = pl.DataFrame({'a': [1]})\nNEW{n} = pl.DataFrame({'a': [2]})\n"
            "rates{n} = OLD{n}\n"
        ),
        files={"sql/alias{n}.sql": "FROM rates{n}"},
        edits=(("", "rates{n} = OLD{n}", "rates{n} = NEW{n}"),),
    ),
    Kind(
        "docstring_of_a_library",
        "click.Context(show{n}).get_help()",
        top='import click\n\n@click.command()\ndef show{n}():\n    """One."""\n',
        edits=(("", '"""One."""', '"""Two."""'),),
    ),
    Kind(
        "missing_for_a_library",
        "read{n}()",
        top=(
            "import polars as pl\n\ndef read{n}():\n    try:\n        return pl.read_csv('data/m{n}.csv')['a'].sum()\n"
            "    except FileNotFoundError:\n        return None\n"
        ),
        edits=(("data/m{n}.csv", "", "a\n1\n"),),
    ),
    Kind(
        "sorted_by_an_effect",
        "len(SEEN{n})",
        top=(
            "SEEN{n} = []\n\ndef note{n}(item):\n    SEEN{n}.append(item)\n    return item\n\n"
            "IDS{n} = sorted(['a'], key=note{n})\n"
        ),
        edits=(("", "sorted(['a']", "sorted(['a', 'b']"),),
    ),
    Kind(
        "iterator_in_a_list",
        "list(ROWS{n})",
        top="ROWS{n} = iter([(1, 2), (3, 4)])\nTAKEN{n} = dict([ROWS{n}])\n",
        edits=(("", "TAKEN{n} = dict([ROWS{n}])\n", ""),),
    ),
    Kind(
        "missing_for_a_library_finally",
        "read{n}()",
        top=(
            "import polars as pl\n\ndef read{n}():\n    value = None\n    try:\n        value = pl.read_csv('data/f{n}.csv')['a'].sum()\n"
            "    finally:\n        return value\n"
        ),
        edits=(("data/f{n}.csv", "", "a\n1\n"),),
    ),
    Kind(
        "query_by_parts",
        "int(ROWS{n}.query(f'a > @limit_{WHICH{n}}')['a'].sum())",
        top="import pandas as pd\nROWS{n} = pd.DataFrame({'a': [1, 2]})\nWHICH{n} = 'low'\nlimit_low = 1\n",
        edits=(("", "limit_low = 1", "limit_low = 0"),),
    ),
    Kind(
        "size_by_a_library",
        "fs.LocalFileSystem().get_file_info('data/i{n}.txt').size",
        top="from pyarrow import fs\n",
        files={"data/i{n}.txt": "one"},
        edits=(("data/i{n}.txt", "one", "three"),),
    ),
)  # fmt: skip
