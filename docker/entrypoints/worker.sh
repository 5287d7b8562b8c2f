#!/bin/sh
# Workers, the sweeper, the fork server of jobs and, without SPARK_REMOTE, a Spark server. One such host only: it sweeps.
set -eu
exec .venv/bin/python manage.py run --role worker
