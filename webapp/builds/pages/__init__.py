"""What the pages of builds show: one frozen value a page, permissions already decided.

Modules:
    builds: lists of builds, one build, its jobs, JobSpecs and lineage.
    new: a new build: what can be chosen, and the plan of it.
    uploads: loading a file: where it goes, what is in it, how it is read.
"""
