"""What is to be compared: the files that differ, the columns that meet, the rules that apply, and who does it.

Face:
    planner: `plan_diff` of two ends and `plan_step` of two snapshots; both give a `DiffPlan`.
    columns: which column is which at the other end, and the SQL of comparing two values.
    diff_rules: the rules of one diff, bound to its columns: `DiffPlan.rules`.
    rules: tolerances and row filters, read, checked, and as SQL.
    components: files whose keys cannot meet.
    router: which executor compares, and why.
    sizes: how large rows are once they are decoded.
    counts: how many rows a table has.
    ranges: the snapshots between two points of a history.
"""
