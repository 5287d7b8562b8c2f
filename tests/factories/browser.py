"""The browser that tests and benchmarks look with."""

from __future__ import annotations

import os
import shutil


def find_browser() -> str | None:
    """Return Debian's Chromium: its build without windows, which takes a quarter less time for the same pages."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell")
