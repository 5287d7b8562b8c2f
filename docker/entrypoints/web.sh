#!/bin/sh
# Pages, API, catalog, Git and event streams on one port.
set -eu
.venv/bin/python manage.py migrate --noinput
.venv/bin/python manage.py prepare_admin
# Its processes have the secrets in files, not in their environments.
exec .venv/bin/python -m webapp.runtime.handed_over .venv/bin/python -m webapp.config.web --host 0.0.0.0 --port "${TRIBUTARY_PORT:-8000}"
