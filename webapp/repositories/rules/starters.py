"""What a repository begins with: folders of files below `starters`, and what each of them is."""

from __future__ import annotations

STARTERS = {
    "empty": "An empty pipeline: pipeline.toml and a README",
    "seed": "A first transform: a small table kept in the repository, and what sums it up",
    "changelog": "A changelog: a table that is kept up to date by what changed in another one",
    "nyc": "The example: flights from New York, cleaned and summed up",
}
EMPTY = "empty"
FOLDER = "FOLDER"
"""Stands in paths and texts for the folder of the repository's datasets, which has its name."""


def fill_starter(files: dict[str, bytes], *, name: str) -> dict[str, bytes]:
    """Put the repository's folder of datasets in the paths and texts of a starter."""
    return {
        path.replace(FOLDER, name): content.replace(FOLDER.encode(), name.encode()) for path, content in files.items()
    }
