"""The transforms API. Repositories import it as `transforms`, the same module objects under a shorter name."""

import importlib
import sys

_MODULES = ("api", "tables", "expectations")


def install() -> None:
    """Make `transforms`, `transforms.api`, `transforms.tables` and `transforms.expectations` importable."""
    sys.modules["transforms"] = sys.modules[__name__]
    for name in _MODULES:
        sys.modules[f"transforms.{name}"] = importlib.import_module(f"{__name__}.{name}")
