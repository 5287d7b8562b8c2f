"""Commands that run and prepare an installation.

Modules:
    run: the whole installation under one supervisor.
    archive_spark: Spark's classes, archived for quicker starts.
    build_assets: the front-end assets, built from the npm lock.
    fetch_jar: Iceberg's runtime for Spark, fetched and checked.
    install_debian: Debian packages that tests need.
    check_locks: whether the lock files fit the declared dependencies.
"""
