#!/bin/sh
# Pages, API, catalog, Git and event streams on one port.
set -eu
.venv/bin/python manage.py migrate --noinput
.venv/bin/python manage.py prepare_admin
exec .venv/bin/python -m webapp.config.web --host 0.0.0.0 --port "${TRIBUTARY_PORT:-8000}"
