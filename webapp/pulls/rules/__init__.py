"""Rules of pull requests that need no database.

Modules:
    states: states and kinds of pull requests.
    labels: how labels may be called, and their colours.
    owners: who owns which paths and datasets.
    reviewers: where somebody who is asked, or who reviewed, stands.
    datasets: which datasets one changes.
    sides: both sides, built from the same inputs.
    approvals: what an approval is bound to, and what blocks a merge.
    queue: who is tested on what, who lands, who leaves and why.
    landing: what merging does not bring to the target.
    loads: files that merging loads on the target, in words.
    lineage: which datasets the graph of one shows, and how each stands.
    breaks: which columns go, and whose code reads them.
    reverts: how a revert is called.
    comparisons: what comparisons are called, and why there is none.
    checks: what checks of the head say.
    references: what texts name.
    suggestions: changes of lines that comments suggest.
    three_ways: rows that both sides have changed, value by value.
"""
