"""What the pages of pull requests show.

Modules:
    checks: the Checks tab.
    listing: lists of pull requests, and the page that opens one.
    lines: pull requests as lines of such a list.
    head: what stands above every tab.
    conversation: the Conversation tab: time line, merge box, side column.
    timeline: what has happened, as that tab shows it.
    merge_box: how the merge stands.
    loads: what was loaded on the source, in that box.
    queue: the merge queue, and where one pull request stands in it.
    rebuilding: the rebuild of a merge that failed.
    reverting: the way back from a merge.
    source: the source branch once the pull request is over.
    code: the tabs Commits, Code and Builds.
    publications: what came of publishing a commit, in words.
    conflicts: where files that conflict are resolved.
    data: the tabs Data and Schema.
    moved: whether a comparison has changes of the target.
    lineage: the Lineage tab.
    three_ways: rows that both sides have changed.
    references: links from what people write to what they name.
    preview: what a text will look like.
    counts: sums over the row diffs.
"""
