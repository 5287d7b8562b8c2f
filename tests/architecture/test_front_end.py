"""What the front end is built from: icons that exist, tokens that exist, pins, and bundles that stay small."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = ROOT / "node_modules"
BUILD = ROOT / "static" / "build"
BUDGET = {"app.js": 16_600, "app.css": 26_000, "lineage.js": 22_000, "editor.js": 200_000}
"""Bytes after gzip."""
NATIVE = {"--fontStack-sansSerif", "--fontStack-system"}
"""Set by us, or used with a value to fall back to."""

needs_modules = pytest.mark.skipif(not MODULES.exists(), reason="npm ci has not run")
needs_build = pytest.mark.skipif(not BUILD.exists(), reason="npm run build has not run")


@needs_modules
def test_icons_that_templates_name_exist() -> None:
    octicons = json.loads((MODULES / "@primer/octicons/build/data.json").read_text())
    known = {name for name, one in octicons.items() if "16" in one["heights"]}
    named = {
        (path.name, name)
        for path in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r"{% icon [\"']([a-z0-9-]+)[\"']", path.read_text())
    }
    assert sorted((path, name) for path, name in named if name not in known) == []


@needs_modules
def test_tokens_that_styles_name_exist() -> None:
    tokens = "".join(path.read_text() for path in (MODULES / "@primer/primitives/dist/css").rglob("*.css"))
    known = set(re.findall(r"(--[\w-]+)\s*:", tokens)) | NATIVE
    sources = [*(ROOT / "static/css").rglob("*.css"), *(ROOT / "static/js").rglob("*.js")]
    used = {name for path in sources for name in re.findall(r"var\((--[\w-]+)", path.read_text())}
    assert sorted(used - known) == []


def test_every_style_is_in_a_layer_and_none_is_shouted() -> None:
    """Layers decide what wins; a rule outside of them, or an important one, would win over all of them."""
    folder = ROOT / "static/css"
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.css")}
    rules = re.sub(r"/\*.*?\*/", "", texts.pop("app.css"), flags=re.DOTALL)
    imports = re.findall(r'^@import "(?:\./)?([\w/]+\.css)" layer\((\w+)\);$', rules, flags=re.MULTILINE)
    layers = re.findall(r"^@layer ([\w, ]+);$", rules, flags=re.MULTILINE)

    assert {name for name, _layer in imports} == {"tokens.css", *texts}
    assert ", ".join(dict.fromkeys(layer for _name, layer in imports)) == layers[0]
    assert len(rules.split(";")) - 1 == len(imports) + len(layers), "a rule stands outside of the layers"
    assert [name for name, text in texts.items() if "!important" in text] == []


def test_packages_are_pinned_and_the_lock_holds_hashes_only() -> None:
    package = json.loads((ROOT / "package.json").read_text())
    wanted = {**package["dependencies"], **package["devDependencies"]}
    lock = json.loads((ROOT / "package-lock.json").read_text())
    assert not [name for name, version in lock["packages"].items() if name and not version.get("integrity")]
    assert not [name for name, version in lock["packages"].items() if "resolved" in version]
    assert {name: lock["packages"][f"node_modules/{name}"]["version"] for name in wanted} == wanted


@needs_build
@pytest.mark.parametrize("name", BUDGET)
def test_bundle_stays_small(name: str) -> None:
    assert len(gzip.compress((BUILD / name).read_bytes(), 9)) <= BUDGET[name]
