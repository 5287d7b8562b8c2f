"""The files of tables, on this machine or in an object store.

Modules:
    metadata_files: metadata files, immutable and durable.
    local_files: files of a `file:` warehouse.
    object_files: files of an `s3:` warehouse.
    credentials: keys for one table's files in an object store.
    reader: a table's files, read in a process of its own.
    manifests: manifests as that process has read them.
    references: which files a table's metadata refers to.
    rendered: tables as answers show them.
"""
