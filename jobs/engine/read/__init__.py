"""What is read: metadata, manifests, data files and stored results, each once and only as far as it is needed.

Face:
    catalog: a job's door to the catalog.
    metadata: table metadata and the manifests below it; what opens a location.
    file_io: the files of one table opened, in an object store for longer than its keys live.
    manifest_files: manifests as clients wrote them, read under limits, for the web.
    packed: records of manifests as the web takes them.
    fields: schemas as values, and the DuckDB types that hold them.
    parquet_lines: Parquet files as the text that people edit.
    paths: columns and fields of struct columns by the names that people write.
    live_files: data files as an end of a table lists them, with their deletes.
    row_ids: the ids that rows of format version 3 have.
    column_names: names of columns that engines take for one.
    bounds: whether a file can hold some values.
    connections: databases of DuckDB, each in memory of its own.
    scan: the live rows of data files, as SQL.
    exact_filters: filters whose literals are values of their columns' types.
    listing: chosen files as a table, for Spark.
    files: data files of users: CSV and Parquet, and the door to JSON lines.
    opened: such files once they are opened, their warnings and refusals.
    json_lines: files of JSON lines.
    text_forms: which texts a type holds.
    first_rows: the first rows of a table.
    stored_rows: the rows of a stored comparison.
    row_exports: a stored comparison as a file.

Inside:
    retries: requests to a catalog that goes away for a moment.
    file_types: the types that somebody chose for the columns of an upload.
    nodes: the columns of a Parquet file as a tree.
    nested_lengths: how long values inside lists and maps are.
"""
