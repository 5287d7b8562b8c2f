# Each target calls a tool; set-up steps are files, so a later start repeats none of them.
.DEFAULT_GOAL := help
# The distribution's is compiled with a profile and so a quarter faster than what others compile without: decision 0100.
PYTHON ?= $(shell /usr/bin/python3 -c "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo /usr/bin/)python3
# Without compiled modules kept, each start of Python compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip
LOCK := $(UV) compile -q --generate-hashes --universal --no-emit-index-url --no-header
PYTEST := $(BIN)/pytest
# Tests whose code runs in their own process; what starts processes is not seen by whoever measures.
MEASURED := tests/unit tests/property tests/integration tests/contract/rest tests/contract/datasets \
	--ignore-glob="tests/integration/runtime/*" --ignore=tests/integration/test_postgres.py \
	$(foreach name,broker_lost crashes crowds life,--ignore=tests/integration/builds/test_$(name).py) \
	$(foreach name,rolling_upgrade upgrade,--ignore=tests/integration/core/test_$(name).py) \
	--ignore=tests/integration/repositories/test_cut_off.py

.PHONY: help run test soak coverage check fix audit bench bench-catalog bench-builds bench-diff bench-pages bench-crowds lock clean debian
help: ; @grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/ -/'

run: .venv/.runtime static/build/.stamp .venv/.jar ## set up what is missing and start Tributary; Ctrl-C stops it
	@exec $(BIN)/python manage.py run

test: .venv/.dev static/build/.stamp .venv/.jars .venv/.clients debian ## ask every promise once, as each change is: the quicker witness of each
	@$(PYTEST) -m "not soak" -n 4 --durations=40 $(ARGS)

soak: .venv/.dev static/build/.stamp .venv/.jars .venv/.clients debian ## run the long tier: further witnesses, full sizes, fault matrices
	@$(PYTEST) -m "soak" -n 4 -o timeout=3600 --durations=0 --durations-min=60 $(ARGS)

coverage: .venv/.dev static/build/.stamp .venv/.jar ## measure what the tests that start no installation run, which has a floor
	@$(PYTEST) $(MEASURED) -m "not soak" -n 3 --cov --cov-report= --cov-fail-under=0 $(ARGS)
	@for part in rules services queries pages engine; do printf "%-10s" $$part; \
	$(BIN)/coverage report --include="*/$$part/*,*/$$part.py" --fail-under=0 --format=total; done
	@$(BIN)/coverage report --skip-covered --sort=cover

check: .venv/.dev ## format, lint, types, import contracts, templates, missing migrations, locks, code that nothing runs
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports --no-cache
	@$(BIN)/djlint --quiet --lint templates && $(BIN)/djangofmt --quiet --check templates
	@$(BIN)/python manage.py makemigrations --check --dry-run --verbosity 0
	@$(BIN)/python manage.py check_locks
	@$(PYTEST) -q tests/architecture/test_dead_code.py tests/architecture/test_layers.py tests/architecture/test_packages.py \
	tests/architecture/test_names.py tests/architecture/test_templates.py

audit: .venv/.dev ## look for known vulnerabilities in all that is locked; needs the index's own service for them
	@for lock in .locks/*.txt; do $(BIN)/pip-audit --strict --disable-pip --progress-spinner off -r $$lock || exit 1; done
	@npm audit --audit=true --package-lock-only

fix: .venv/.dev ## repair what can be repaired, and draw the diagrams of states
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format . ; $(BIN)/djangofmt --quiet templates
	@$(BIN)/python manage.py draw_states

bench: bench-catalog bench-builds bench-diff bench-pages bench-crowds ## every benchmark, as ratios
bench-diff bench-builds: .venv/.peers
bench-catalog bench-builds bench-diff bench-pages bench-crowds: bench-%: .venv/.dev .venv/.jar static/build/.stamp ; @$(BIN)/python -m tests.bench.$*

lock: .venv/.uv ## resolve the dependencies again
	@$(LOCK) pyproject.toml -o .locks/requirements.txt && $(LOCK) pyproject.toml --group dev -o .locks/requirements-dev.txt
	@for group in bootstrap java node clients peers; do $(LOCK) --group $$group -o .locks/$$group.txt || exit 1; done

clean: ; @rm -rf .venv node_modules static/build staticfiles

.venv/.uv: .locks/bootstrap.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is missing: apt-get install python3 python3-venv"; exit 1; }
	@command -v git >/dev/null || { echo "git is missing: apt-get install git"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r .locks/bootstrap.txt && touch $@

.venv/.runtime: .locks/requirements.txt .venv/.uv
	@echo "Installing Python packages"; $(UV) install -q --require-hashes -r .locks/requirements.txt && touch $@

.venv/.dev: .locks/requirements-dev.txt .venv/.uv
	@echo "Installing Python packages"; $(UV) install -q --require-hashes -r .locks/requirements-dev.txt && touch $@ .venv/.runtime

.venv/.peers: .locks/peers.txt | .venv/.dev
	@$(UV) install -q --target .venv/peers --require-hashes -r .locks/peers.txt && touch $@

.venv/.clients: .locks/clients.txt | .venv/.dev
	@$(UV) install -q --target .venv/clients --require-hashes -r .locks/clients.txt && touch $@

.venv/.jar: webapp/runtime/management/commands/fetch_jar.py | .venv/.runtime
	@$(BIN)/python manage.py fetch_jar && { ls .venv/jars/*.jar >/dev/null 2>&1 && touch $@ || true; }

.venv/.jars: webapp/runtime/management/commands/fetch_jar.py | .venv/.runtime
	@$(BIN)/python manage.py fetch_jar --s3 && { ls .venv/jars/*aws*.jar >/dev/null 2>&1 && touch $@ .venv/.jar || true; }

static/build/.stamp: package-lock.json .locks/requirements.txt $(wildcard static/js/* static/js/*/* static/css/* static/css/*/* static/img/* static/*.mjs templates/* templates/*/*) | .venv/.runtime
	@$(BIN)/python manage.py build_assets && touch $@

debian: ; @$(BIN)/python manage.py install_debian
