"""Rules of builds that need no database.

Modules:
    values: what a plan is made from and made of.
    plan: from JobSpecs, targets and a chain to a frozen plan.
    earlier_rows: whether rows that a build has read would read differently now.
    fallback: the chain of branches on which an input is looked for.
    lineage: the graph of datasets around one of them.
    columns: whether the code of a JobSpec reads a column.
    sources: what the columns of an output are made of, as its job tells.
    triggers: what starts a build.
    turns: whose build comes next.
    freshness: why an output is made anew, or is fresh.
    waiting: what a build waits for, in words.
    states: states of builds and jobs.
    profiles: what a job may use.
    files: how an uploaded file is read.
    loads: uploads that a build repeats.
    timeline: geometry of a build's time line.
"""
