"""Rules of the catalog over plain metadata: no database, no files.

Modules:
    endpoints: every route, and whether a branch may call it.
    record_counts: whether a snapshot's summary counts the rows that its manifests list.
    refs: what a request is about: table and branch, decoded once.
    errors: exception → status, type and message of the specification.
    commits: one commit, from requirements and updates to new metadata.
    requirements: a commit's requirements against what its writer saw.
    updates: a commit's updates applied, one after the other.
    lens: what a branch sees, and what its writes leave.
    branch_properties: names of the properties by which branches keep their ids.
    branch_logs: the snapshot log of a branch.
    pointers: where a branch points on one table.
    protection: what a branch still needs cannot be removed.
    held_files: a branch is never set to files that its schema cannot read.
    iceberg: table metadata as types.
    metadata: parts of table metadata, and old forms of it.
    field_ids: column ids, never given out twice.
    column_types: types of columns and their defaults.
    partition_names: names of partition fields as a branch is shown them.
    readable: what every reader must be able to parse.
    table_properties: values of table properties that clients can work with.
    locations: where a table's files may lie.
    access: what a client may do with a table's files.
    views: view metadata and its commits.
    scans: a scan as a client asks for it.
    filters: row filters in JSON, and what is left of them for a file.
    scan_choice: which manifests and files a scan needs.
    scan_deletes: which delete files apply to which data files.
    scan_files: files of a scan in the specification's form.
    single_values: single values in JSON.
"""
