"""Server time of every page of the demo, from stored results, beside the cheapest page there is.

    make bench-pages           or    python -m tests.bench.pages [--repeat 15]

Prints the median and the slowest answer of each page in milliseconds, and the ratio to `/healthz` in the same run;
then how long it takes in a browser until a click is seen, by `tests.bench.clicks`, and what pages cost in a large
installation, by `tests.bench.growth`.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import requests

from tests.bench import clicks
from tests.factories.installation import Installation, running_installation

BRANCH = quote("feature/cancelled-flights", safe="")
DAILY = "/r/nyc/pulls/1/data?dataset=/nyc/delays/daily"
GOAL_MS = 200
PAGES = [
    "/healthz",
    "/",
    "/repositories",
    "/r/nyc/",
    f"/r/nyc/tree/{BRANCH}/",
    "/r/nyc/blob/master/pipelines/delays.py",
    "/r/nyc/edit/master/pipelines/delays.py",
    "/r/nyc/commits/master",
    "/r/nyc/branches",
    "/r/nyc/jobspecs",
    "/r/nyc/labels",
    "/r/nyc/queue",
    "/r/nyc/settings",
    "/r/nyc/sql",
    "/inbox",
    "/search?q=delays",
    "/guide/review",
    "/settings",
    "/settings/notifications",
    "/settings/profile",
    "/datasets",
    "/d/nyc/clean/flights",
    f"/d/nyc/delays/daily?branch={BRANCH}&tab=branches",
    "/d/nyc/delays/daily?tab=history",
    "/d/nyc/delays/daily?tab=schema",
    "/d/nyc/delays/daily?tab=catalog",
    "/d/nyc/delays/daily?tab=lineage",
    "/builds",
    "/builds/6",
    f"/builds/new?repository=nyc&branch={BRANCH}&target=/nyc/delays/daily",
    "/pulls",
    "/r/nyc/pulls/1",
    "/r/nyc/pulls/1/commits",
    "/r/nyc/pulls/1/code",
    "/r/nyc/pulls/1/schema",
    "/r/nyc/pulls/1/data",
    f"{DAILY}&change=updated",
    f"{DAILY}&change=updated&lines=two",
    f"{DAILY}&show=statistics&by=carrier",
    f"{DAILY}&show=time&column=mean_delay",
    f"{DAILY}&show=both",
    "/r/nyc/pulls/1/lineage",
    "/r/nyc/pulls/1/checks",
    "/r/nyc/pulls/1/conflicts",
    "/r/nyc/pulls/1/merge-box",
    "/r/nyc/pulls/1/builds",
]


def sign_in(installation: Installation) -> requests.Session:
    """A signed-in session of one of the demo's people."""
    session = requests.Session()
    form = session.get(f"{installation.url}/login", timeout=10).text
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
    assert token is not None
    answer = session.post(
        f"{installation.url}/login",
        data={"username": "mira", "password": installation.password_of("mira"), "csrfmiddlewaretoken": token.group(1)},
        timeout=10,
    )
    answer.raise_for_status()
    return session


def main() -> None:
    """Start the product, measure, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        with running_installation(home) as installation:
            session = sign_in(installation)
            measured = {page: measure(session, installation.url + page, repeat) for page in PAGES}
            clicked = clicks.measure(installation, repeat)
    floor = statistics.median(measured["/healthz"])
    print(f"{'page':<76}{'median':>9}{'slowest':>10}{'x healthz':>11}")
    for page, values in measured.items():
        median = statistics.median(values)
        mark = "" if median <= GOAL_MS else f"  over {GOAL_MS} ms"
        print(f"{page:<76}{median:>6.0f} ms{max(values):>7.0f} ms{median / floor:>11.1f}{mark}")
    clicks.show(clicked)
    # In a process of its own: Django's settings are read once, and belong to a home.
    subprocess.run([sys.executable, "-m", "tests.bench.growth"], check=True)


def measure(session: requests.Session, url: str, repeat: int) -> list[float]:
    """Milliseconds from request to the last byte, on a kept connection; the first, which compiles, is left out."""
    session.get(url, timeout=30).raise_for_status()
    values = []
    for _ in range(repeat):
        start = time.perf_counter()
        answer = session.get(url, timeout=30)
        values.append((time.perf_counter() - start) * 1000)
        answer.raise_for_status()
    return values


if __name__ == "__main__":
    main()
