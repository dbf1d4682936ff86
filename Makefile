# Every target is idempotent and installs what it needs.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DATASET ?= world
DATA ?=
OPTIONS ?= {}
SEED ?= 0
RECIPE ?=
OPERATIONS ?= 1000000
STORE ?=
CURVE_REPAIR ?=
CALIBRATION ?=
WEIGHTING ?= none
DAYS ?= 1
RESUME ?=
PORT ?= 8080
RUN ?= runs/latest
TESTS ?=
WORKERS ?= 3
TABLES ?=
QUICK ?=
ROLES ?=
REGISTRY ?=
VERSION ?=
PLAIN_HTTP ?=
BASE ?=
BUILDER ?=
BEFORE ?=
NAMESPACE ?=
RELEASE ?=
KEY ?=
ADVISORIES ?=
READER ?=
SECONDS ?= 60
# Without bytecode each of the many processes of a run or a test compiles its libraries anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE
export UV_FIND_LINKS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard shadowprice/*/kernel/*.[ch])
	@command -v $(PYTHON) >/dev/null || { echo "make install: $(PYTHON) is missing; install Python 3.11 or set PYTHON="; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	$(BIN)/uv pip install --no-progress --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
	touch $@

.PHONY: install
install: $(STAMP) ## One .venv with everything that tests and benchmarks need

.PHONY: quickstart
quickstart: install ## The whole main job on one machine [DATASET=world|tables|mapping|o2o|thornton|promotion|vouchers] [DATA=path] [OPTIONS=json] [RECIPE=name] [CURVE_REPAIR=effect+monotone] [CALIBRATION=validation|rolling] [WEIGHTING=none|known|fitted] [DAYS=15] [RESUME=1]
	$(BIN)/python -W ignore -m shadowprice quickstart --dataset $(DATASET) --data '$(DATA)' --options '$(OPTIONS)' --seed $(SEED) \
		--recipe '$(RECIPE)' --curve-repair '$(CURVE_REPAIR)' --calibration '$(CALIBRATION)' --weighting $(WEIGHTING) --days $(DAYS) \
		$(if $(RESUME),--resume)

.PHONY: serve
serve: install ## The services of the last run (predictor on PORT=8080, ledger and console on the next two) [RUN=runs/latest]
	$(BIN)/python -W ignore -m shadowprice serve $(RUN) --port $(PORT)

.PHONY: test
test: install ## The tests of every room but the whole runs [TESTS=path WORKERS=3]
	# Small matrices gain nothing from a second thread and lose much where cores are shared.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 \
		$(or $(TESTS),tests --ignore=tests/runs --ignore=tests/images --ignore=tests/cluster)

.PHONY: test-fast
test-fast: install ## Short tests that start no service and no other program [TESTS=path] [WORKERS=3]
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m fast -n $(WORKERS) --dist loadfile $(or $(TESTS),tests)

# Every resolution is made anew: an output that is there would be kept to. Pins as constraints let a CPU build of torch
# stand for its version.
define test_with
	@command -v $(PYTHON) >/dev/null || { echo "make $@: $(PYTHON) is missing; install Python 3.11 or set PYTHON="; exit 1; }
	test -x build/$(1)/bin/uv || { $(PYTHON) -m venv build/$(1) && build/$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv; }
	build/$(1)/bin/uv pip compile pyproject.toml --extra dev --python build/$(1)/bin/python --resolution $(2) \
		--upgrade --no-header --no-annotate --quiet --output-file build/$(1).txt
	build/$(1)/bin/uv pip install --no-progress --python build/$(1)/bin/python --constraint build/$(1).txt --editable '.[dev]'
	OMP_NUM_THREADS=1 build/$(1)/bin/python -m pytest -m fast -n $(WORKERS) --dist loadfile $(or $(TESTS),tests)
endef

.PHONY: test-oldest
test-oldest: ## test-fast with the oldest versions that pyproject.toml admits, in build/oldest [TESTS=path WORKERS=3]
	$(call test_with,oldest,lowest-direct)

.PHONY: test-newest
test-newest: ## test-fast with the newest versions that pyproject.toml admits, in build/newest [TESTS=path WORKERS=3]
	$(call test_with,newest,highest)

.PHONY: test-runs
test-runs: install ## Whole runs: pipelines, quickstarts, training on Ray, killed steps, tutorials [WORKERS=3]
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations 20 tests/runs

.PHONY: fuzz
fuzz: install ## Random input for the readers of files and messages, guided by coverage [READER=mapping SECONDS=60]
	@$(BIN)/python -c 'import atheris' 2>/dev/null \
		|| $(BIN)/uv pip install --no-progress --python $(BIN)/python --constraint constraints.txt --editable '.[fuzz]' \
		|| { echo "make fuzz: atheris cannot be installed"; exit 1; }
	mkdir -p build
	$(BIN)/python tests/fuzz/fuzz.py $(READER) -max_total_time=$(SECONDS) -artifact_prefix=build/fuzz-

.PHONY: lint
lint: install ## Formatting, types, imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install ## Rewrite the code in the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench-scale
bench-scale: install ## The whole loop at 10⁵ to 10⁷ accounts, step by step; an interrupted run goes on
	$(BIN)/python -m benchmarks scale --keep

.PHONY: bench
bench: install ## The benchmarks; writes benchmarks/results/*.json
	$(BIN)/python -m benchmarks

.PHONY: simulate
simulate: install ## The path of money in virtual time, with faults from a seed [SEED=0] [OPERATIONS=1000000] [STORE=sqlite|redis]
	$(BIN)/python -m benchmarks.simulation --seed $(SEED) --operations $(OPERATIONS) $(if $(STORE),--store $(STORE))

.PHONY: reproduce
reproduce: install ## The papers' tables, ours beside theirs, to docs/results [QUICK=1] [TABLES="name …"]
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m research $(TABLES) $(if $(QUICK),--quick)

.PHONY: screenshots
screenshots: install ## Pictures of report and console for the docs, from services that run; needs chromium [RUN=folder of a finished quickstart]
	SHADOWPRICE_SCREENSHOTS=$(CURDIR)/docs/images SHADOWPRICE_RUN='$(realpath $(RUN))' OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -q tests/runs/test_quickstart.py -k well_made

.PHONY: docs
docs: install ## The site of the documentation in build/site; a warning is an error
	$(BIN)/python docs/build.py

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.PHONY: chart
chart: install ## Lint and render the chart with both generations of Helm, and check every object
	$(BIN)/python -m pytest tests/chart

.PHONY: test-cluster
test-cluster: install ## Check the chart on an API server, and a release with its operators [KUBECONFIG=file BEFORE=tag NAMESPACE=growth RELEASE=spring]
	@test -n '$(KUBECONFIG)' || { echo "make test-cluster: say which API server: KUBECONFIG=file"; exit 1; }
	BEFORE='$(BEFORE)' NAMESPACE='$(NAMESPACE)' RELEASE='$(RELEASE)' SHADOWPRICE_TEST_CLUSTER='$(abspath $(KUBECONFIG))' $(BIN)/python -m pytest tests/cluster

.PHONY: images
images: ## Container images and their lists of parts (build/*.cdx.json), with buildah or docker [ROLES="serving ledger pipeline" BASE=image BUILDER=image]
	@command -v $(PYTHON) >/dev/null || { echo "make images: $(PYTHON) is missing; install Python 3.11 or set PYTHON="; exit 1; }
	$(PYTHON) images/build.py $(ROLES) --base '$(BASE)' --builder '$(BUILDER)'

.PHONY: lock
lock: install ## Write the hashed locks of the images again
	cd images && for input in ../pyproject.toml tools.in; do \
		output=requirements.lock; options="--extra all"; \
		[ $$input = ../pyproject.toml ] || { output=tools.lock; options=; }; \
		../$(BIN)/uv pip compile $$input $$options --constraint ../constraints.txt --generate-hashes --no-header --no-annotate --quiet \
			--python-version 3.11 --python-platform x86_64-manylinux_2_28 --output-file $$output; \
	done

.PHONY: audit
audit: install ## Search an advisory database for the packages of the images' locks; without a network it says so [ADVISORIES=address]
	$(BIN)/python images/audit.py --advisories '$(ADVISORIES)'

.PHONY: push
push: install ## Push images and chart, and print the values that pin them [REGISTRY=host/path ROLES="serving ledger" PLAIN_HTTP=1]
	@test -n '$(REGISTRY)' || { echo "make push: say where to: REGISTRY=host/path"; exit 1; }
	$(BIN)/python images/push.py '$(REGISTRY)' $(ROLES) $(if $(PLAIN_HTTP),--plain-http)

.PHONY: release
release: install ## Tag a version, then build and push images, chart and their provenance [VERSION=1.4.0 REGISTRY=host/path KEY=file BASE=image BUILDER=image PLAIN_HTTP=1]
	@test -n '$(VERSION)' -a -n '$(REGISTRY)' || { echo "make release: say what and where to: VERSION=1.4.0 REGISTRY=host/path"; exit 1; }
	$(BIN)/python images/release.py '$(VERSION)' '$(REGISTRY)' --base '$(BASE)' --builder '$(BUILDER)' --key '$(KEY)' \
		$(if $(PLAIN_HTTP),--plain-http)

.PHONY: test-images
test-images: install ## Build images on a base made here, run chart and pipelines with them, push and pull them; root, minutes [ROLES="serving pipeline"]
	BASE='$(BASE)' BUILDER='$(BUILDER)' SHADOWPRICE_TEST_IMAGES='$(or $(ROLES),serving pipeline)' OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest --durations 20 tests/images

.PHONY: manifests
manifests: install ## Render k8s/ again
	$(BIN)/python -m k8s.render
