"""REST endpoints of pull requests.

Modules:
    pulls: pull requests, their diffs, reviews and merge.
"""
