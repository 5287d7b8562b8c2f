"""Everything that reads pull requests.

Modules:
    pulls: what services and API need to know of one.
    queue: merges that are asked for when they are ready.
    lists: lists of pull requests, and their filters.
    waiting: what waits for somebody.
    labels: labels of a repository.
    owners: who owns what is changed.
    reviewers: who reviewed, who is asked to, and who could be.
    checked: queries of the head, and how each stands.
    approvers: whose approval does not count, and why.
    specs: the JobSpecs of both sides, and the datasets that differ by them and by data.
    own: what the source has of its own, built there or loaded.
    loads: what was loaded on the source, and whether merging loads it on the target.
    sides: what a dataset's head side is compared with.
    starts: what that head side stands on.
    files: the files that it changes, with their lines.
    named: the named comparisons of a dataset.
    three_ways: rows that both sides have changed.
    threads: threads of comments, as rows.
    pending: comments of a review that is not submitted.
    lines: lines of code that comments are about, as they were shown and where they are now.
    expected: whether what a user acts on is still what they were shown.
    remarks: threads beside what they are about, and what was viewed.
    verdicts: what reviewers say of single datasets.
    places: what comments are about, as far as a reader may know it.
    unseen: what somebody knows of the datasets that they may not see.
    references: what of what texts name is there for a reader.
    looked: what people saw when they last reviewed.
    timeline: events, reviews and comments in one order.
    sources: whether anything needs the source branch.
    templates: the text that a repository proposes.
    conflicts: files that conflict.
    lineage: the graph of what is changed and what is downstream, across repositories.
    breaks: whose code reads columns that go.
    reverts: what takes a pull request back.
"""
