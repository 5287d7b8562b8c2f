"""What the pages of datasets show.

Modules:
    datasets: lists, and each tab of a dataset.
    table: the Catalog tab: the Iceberg table with all of its branches.
"""
