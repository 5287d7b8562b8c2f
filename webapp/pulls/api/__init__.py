"""REST endpoints of pull requests.

Modules:
    labels: labels, and who sees to a pull request.
    pulls: pull requests, their diffs, reviews and merge.
"""
