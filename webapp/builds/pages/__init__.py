"""What the pages of builds show: one frozen value a page, permissions already decided.

Modules:
    build: one build: its jobs, what they read and wrote, their time line and logs.
    builds: lists of builds.
    failures: its failed jobs, each with its cause.
    jobspecs: the JobSpecs that a branch sees.
    lineage: the lineage of a dataset, and whether it is fresh.
    maker: what makes a dataset.
    links: how these pages name datasets and branches.
    new: a new build: what can be chosen, and the plan of it.
    ways_out: what is offered where a dataset's branches do not fit the chain of a build.
    uploads: loading a file: where it goes, what is in it, how it is read.
"""
