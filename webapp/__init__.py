"""The web side of Tributary: a Django project of apps that build on each other in one direction.

An app may use those above it in this list, never one below.

Modules:
    core: what every app stands on; it knows no noun.
    git: bare Git repositories, without users and database.
    runtime: how an installation runs: its parts and their doors.
    dispatch: work that one worker at a time has, and processes in the sandbox.
    accounts: users, tokens, roles and the audit log.
    catalog: the Iceberg REST catalog, with branches of tables.
    repositories: repositories, branches and commits.
    datasets: datasets, their branches and transactions.
    builds: JobSpecs, builds and jobs.
    comparisons: two ends of a dataset's history compared.
    sql: SQL of people over what branches of data hold.
    previews: code that is not committed, run over samples of its inputs.
    pulls: pull requests, their reviews and merges.
    notices: what people are told, in their inbox and by mail, and what they watch.
    site: pages that belong to no noun: home, search, guide, style guide.
    config: the composition root: settings, addresses, programs.
"""
