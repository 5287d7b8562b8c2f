"""What each page costs in a small installation, and in a large one that is written beside it.

    make bench-pages           or    python -m tests.bench.growth [--repeat 3] [--medium]

Prints queries, bytes and milliseconds of the processor for the pages of the small one alone, the same pages beside the
large one, and the pages of the large one. Writing the large one takes minutes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import django

GOAL = 1.5
GOAL_MS = 100


def main() -> None:
    """Make an installation's database in a home of its own, measure, write the large one, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--medium", action="store_true", help="write what the tests write instead of the large one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-growth-") as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        os.environ |= {
            "TRIBUTARY_HOME": str(home),
            "TRIBUTARY_DEMO": "0",
            "DJANGO_SETTINGS_MODULE": "webapp.config.settings",
        }
        django.setup()
        run(repeat=options.repeat, is_medium=options.medium)


def run(*, repeat: int, is_medium: bool) -> None:
    """Measure in this process: what is compared is the processor's work, not the server around it."""
    from django.conf import settings
    from django.core.management import call_command
    from django.test.utils import override_settings, setup_test_environment

    from tests.factories import large

    call_command("migrate", verbosity=0)
    setup_test_environment()
    plain = {**settings.STORAGES, "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}

    with override_settings(STORAGES=plain):
        small = large.seed(large.SMALL, prefix="small")
        alone = large.measure_all(small, repeat=repeat)
        big = large.seed(large.MEDIUM if is_medium else large.BIG, prefix="big")
        beside, among = large.measure_all(small, repeat=repeat), large.measure_all(big, repeat=repeat)
    print(f"{'':<32}{'small':>24}{'the same beside big':>24}{'big':>24}")
    print(f"{'page':<32}" + f"{'queries':>8}{'bytes':>9}{'ms':>7}" * 3)
    for name in alone:
        costs = (alone[name], beside[name], among[name])
        columns = "".join(f"{len(cost.queries):>8}{cost.bytes:>9,}{cost.milliseconds:>7.0f}" for cost in costs)
        limit = max(GOAL * alone[name].milliseconds, GOAL_MS)
        is_over = any(cost.milliseconds > limit for cost in costs)
        print(f"{name:<32}{columns}{f'  over {limit:.0f} ms' if is_over else ''}")


if __name__ == "__main__":
    main()
