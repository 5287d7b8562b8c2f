"""Leased work, once: claim, heartbeat, fence, retry and sweep, and processes in the sandbox.

Modules:
    leases: rows of work that one worker at a time has.
    models: the columns of work that is asked for, done in the sandbox and kept for a time.
    failures: what an attempt meets that nobody foresaw, said by name.
    sweeps: what must be repeated for ever.
    processes: processes in the sandbox, and how they ended.
    logs: log files of jobs.
    log_lines: the lines of such a log.
    fair_slots: slots that users share, and the rule of their shares.
    fair_threads: threads that several owners share.
    stamps: times of a clock that was ahead, set back.
    apps: the app, for Django.
    management: commands of `manage.py`.
"""
