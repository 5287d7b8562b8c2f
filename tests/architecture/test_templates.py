"""Every template compiles, every page has a title, and none of them breaks the security policy."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings
from django.template.loader import get_template

ROOT = Path(settings.BASE_DIR) / "templates"
TEMPLATES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.html"))
MOST_WIDE = 120
CONTEXT = re.compile(r"Context: (webapp[\w.]+)\.(\w+)")
ONE_TAG = re.compile(r"\s*(?:\{%(?:(?!%\}).)*%\}|[\w-]+=\"[^\"]*\")")
FORBIDDEN = {
    "style attribute": re.compile(r"<[^>]*\sstyle\s*="),
    "handler attribute": re.compile(r"<[a-z][^>]*\son[a-z]+\s*="),
    "htmx code attribute": re.compile(r"hx-on|hx-vals\s*=\s*['\"]js:"),
    "script in the page": re.compile(r"<script(?![^>]*\bsrc\s*=)[^>]*>", re.IGNORECASE),
    "address of another host": re.compile(r"(?:src|href|action)\s*=\s*['\"]https?://"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_compiles(name: str) -> None:
    get_template(name)


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_keeps_to_the_security_policy(name: str) -> None:
    text = (ROOT / name).read_text()

    assert {what for what, pattern in FORBIDDEN.items() if pattern.search(text)} == set()


@pytest.mark.parametrize("name", TEMPLATES)
def test_formats_begin_with_a_conversion(name: str) -> None:
    """`stringformat` puts the sign before its argument and answers nothing where that makes no format."""
    formats = re.findall(r'stringformat:"([^"]*)"', (ROOT / name).read_text())
    assert [text for text in formats if not re.match(r"[0-9.]*[dsf]", text)] == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_lines_can_be_read_and_compared(name: str) -> None:
    """A line has at most 120 characters, but for one that is a single tag or attribute: Django takes no tag on two lines."""
    lines = (ROOT / name).read_text().splitlines()

    assert [line for line in lines if len(line) > MOST_WIDE and not ONE_TAG.fullmatch(line)] == []


def test_templates_name_the_page_that_they_show() -> None:
    """Who opens a template finds there which value it is given."""
    named = [(name, *what) for name in TEMPLATES for what in CONTEXT.findall((ROOT / name).read_text())]
    assert len(named) > 20
    assert [(name, page) for name, module, page in named if not hasattr(import_module(module), page)] == []


@pytest.mark.parametrize("name", [name for name in TEMPLATES if "{% extends" in (ROOT / name).read_text()])
def test_page_has_a_title(name: str) -> None:
    text = (ROOT / name).read_text()

    is_layout = name.startswith("layouts/")
    inherits = re.search(r'{% extends "(?!base\.html|layouts/)', text)
    assert is_layout or inherits or "{% block title %}" in text


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name.startswith("components/")])
def test_component_says_its_arguments(name: str) -> None:
    head = "\n".join((ROOT / name).read_text().splitlines()[:3])

    assert "{#" in head or "{% comment" in head
