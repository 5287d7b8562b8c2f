"""The programs that the web side starts, and the sandbox in which they run.

Modules:
    publish: one commit's code → JobSpecs, or errors with file and line.
    run: one transform of one commit.
    upload: staged files into one table.
    diff: two ends of a table compared.
    changelog: the changelog of a range of history, stored.
    blame: who changed one row.
    query: SQL of people over pinned tables.
    tables: the visible columns of these tables, for the process that runs the SQL.
    sample: the first rows of tables, taken for a preview.
    preview: transforms that are not committed, run over samples.
    describe: what a preview has written, described and compared.
    interrupt: a Spark session whose job is gone, ended.
    read: pages of rows, read for the web.
    manifests: manifest lists and manifests, read for the web.
    linting: what a linter says of code, for that.
    artifact: stored files of one comparison, read for the web.
    answering: what `read`, `manifests` and `artifact` share: one question after the other over a channel.
    pipeline_file: pipeline.toml, read.
    usercode: modules of a repository, imported, and their errors for the author.
    warm_up: a Spark server warmed up for its first job.
    forkserver: a warm process that forks jobs.
    light: a second one that is small, for jobs that need few libraries.
    rehearsal: what libraries work out once, made before jobs are forked.
    light_rehearsal: the same for that small one.
    relays: relays of sandboxes, started by a small process.
    keeper: what stands outside a sandbox while something runs inside.
    opener: a server in a sandbox, lent to one group of callers at a time.
    sandbox: namespaces, an own user and limits for code that is not trusted.
    seccomp: the system calls that such code is refused.
    address_space: a limit on what a process maps.
    cgroups: a limit of the kernel on the memory of a process tree.
    holdings: what processes have open and in memory, as /proc shows it.
    memory_limit: how much memory a process tree holds, counted.
    disk_quota: a limit on what a process writes, all files together.
    folders: folders that somebody may change meanwhile, walked by descriptors.
    sealing: the files of an ended process, frozen and recorded.
"""
