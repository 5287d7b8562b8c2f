"""What stands between a build's rows and its job processes.

Modules:
    manifests: messages to a job process, and its answer.
    paths: where builds keep files.
"""
