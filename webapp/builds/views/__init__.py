"""Pages, fragments and event streams of builds.

Modules:
    pages: lists, the plan before a build, the build, JobSpecs, lineage.
    uploads: the pages that load a file into a dataset.
    branches: deleted branches that come back with their data.
    events: a job's log line by line, and a build's changes.
"""
