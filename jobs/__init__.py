"""What runs in processes of its own, mostly in the sandbox; it knows nothing of the web.

Modules:
    regular_files: opening files in folders where others may have put anything.
    locations: whether a file is inside a table's folder.
    parsing: JSON and TOML that may be damaged or hostile.
    whole_files: files that appear whole or not at all.
    lfs: pointers of Git LFS.
    protocol: the messages between the web side and job processes.
    channel: what the web and a process that reads for it say to each other.
    encoding: values of rows in JSON.
    formulas: texts in CSV files that spreadsheets would run.
    nulls: NULLs that PyIceberg loses, kept.
    exact_times: times that PyIceberg reads as others or not at all.
    engine: rows of tables read, compared, measured and written.
    changelog: the rows that changed in a range of snapshots.
    transforms: the API that repositories import.
    entrypoints: the programs that are started.
"""
