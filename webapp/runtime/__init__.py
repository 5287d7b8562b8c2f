"""How an installation runs: its parts, their doors, and what they reach outside the database.

Modules:
    supervisor: the parts as children: started, restarted, stopped.
    lifelines: a process that ends with the one that started it.
    privileges: the rights of root that a part does without.
    home_lock: one supervisor for each role on a home.
    workers: the Celery workers.
    handed_over: secrets in files instead of environments.
    probes: short questions to the parts.
    pulses: signs of life of a part.
    process_groups: the processes of a part.
    health: whether each part works.
    checks: what `manage.py check --deploy` finds.
    broker: the queue of a machine by itself.
    doorbell: a worker, rung with an id.
    fork_server: processes asked of the fork server.
    readers: processes in the sandbox that read files for this one.
    hosts: what a sandbox must reach.
    folders: folders that code of others fills.
    room: room on the installation's own disks.
    object_store: the store of an `s3:` warehouse.
    java: a Java that runs Spark.
    spark_server: how the embedded Spark server is started.
    spark_classes: an archive of its classes, for a quicker start.
    spark_folders: folders that it shares with a sandboxed process.
    web: what stands between the web server and the application.
    services: writes that belong to no domain.
    urls: where an installation says whether it works.
    views: that answer, for probes and people.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
