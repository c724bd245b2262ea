# Three commands matter: `make demo`, `make report` and `make test`. They set up everything they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
COMPILED := build/compiled
BUILD_WHEEL = $(BIN)/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation

# The tests start hundreds of processes; each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo report screenshots test test-all at-load check clients kafka-release kafka-lock unit unit-core unit-rest unit-compiled processes integration integration-security integration-rest other-kafkas pipeline pipeline-tables pipeline-rest fuzz threats audit sbom image helm checkov wheel test-compiled apiserver bench bench-quota bench-purgatory bench-memory bench-telemetry bench-policies bench-fairness bench-tls bench-path bench-replay bench-clients bench-requests soak bench-image bench-pod bench-pipeline report-large bench-whatif bench-compare lock docs changelog clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 24

# The compiled build where it can be made; else there is no $(COMPILED), and the source runs.
demo: $(STAMP)-demo $(COMPILED)/.stamp  ## an embedded cluster, Sluice in front of it, real clients
	env $$(test -e $(COMPILED)/.stamp && echo PYTHONSAFEPATH=1 PYTHONPATH=$(COMPILED)) $(BIN)/sluice demo

# Both sets of requirements hold the same versions of what they share.
REPORT := reports/usage
report: $(STAMP)-demo $(STAMP)-pipeline  ## clients with quotas, Sluice, the data pipeline; ends with a page of what happened
	rm -rf $(REPORT)
	$(BIN)/sluice demo --seconds 50 --usage-log $(REPORT)/log --page reports/demo.html
	$(BIN)/sluice-pipeline all $(REPORT)/log $(REPORT) --traces $(REPORT)/log/traces.jsonl

screenshots: $(STAMP)-test $(STAMP)-tools  ## the pictures of the report in docs/img, from the page that make report has made
	$(BIN)/python -m tests.support.pages.report_pictures $(REPORT)/report.html docs/img

# `make test` leaves the tests that are marked `slow` to `make test-all`, and shortens property tests.
PYTEST = env HYPOTHESIS_PROFILE=$(or $(HYPOTHESIS_PROFILE),$(if $(ALL),ci,quick)) $(BIN)/python -m pytest -q $(if $(ALL),,-m "not slow")

# The suites that talk to brokers and processes are idle half of the time. Those that never wait run below them (`nice`),
# so that they delay no other; only a little, or they starve beside the work of others. The longest start first. Five at
# once fit in 8 GiB, and what comes last begins when another ends, so that both cores stay busy. The longest and the last
# have no `nice`: all wait for them.
# The output of a suite is printed at its end.
SUITES := check pipeline-tables pipeline-rest integration-rest processes unit-rest integration-security $(if $(ALL),,unit-compiled) unit-core
ifdef ROOM
test: $(STAMP)-test  ## what CI runs: all but the slow tests; ROOM=quota runs one room of the tree, in seconds
	$(PYTEST) $(or $(shell find tests -name 'test_*.py' | grep -E '[/_]$(ROOM)s?[/_.]' | grep -v ^tests/integration/),$(error no test of $(ROOM)))
else
test:  # packages of Python and of the system are installed side by side
	@$(MAKE) --no-print-directory -j5 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) $(SUITES)
	$(if $(ALL),,@echo 'The deselected tests are left to `make test-all`.')
endif

test-all:  ## everything: also pods, the image, an API server, Spark end to end, the compiled build, fuzz, threats (hours)
	@$(MAKE) --no-print-directory test ALL=1
	@$(MAKE) --no-print-directory test-compiled fuzz threats other-kafkas

at-load: TIMES ?= 3
at-load: $(STAMP)-test  ## `make test` beside two busy loops per core and a writer: make at-load TIMES=3 FILES=tests/faults
	tests/at_load $(TIMES) $(FILES)

check: $(STAMP)-test  ## style, types, import contracts
	$(BIN)/ruff check --no-cache .  # a cached verdict does not know of files that came since
	$(BIN)/ruff format --no-cache --check .
	$(BIN)/mypy
	$(BIN)/mypy examples/*/*.py  # what authors of policies copy
	$(BIN)/lint-imports --no-cache

# Tests that start Sluice, a demo or a build, and attacks.
PROCESSES := tests/bench tests/docs tests/faults tests/fuzz tests/proxy/demo tests/threats

clients: $(STAMP)-test  ## five client libraries that no test runs, directly and through Sluice with a quota; needs Go, Node and a JDK
	$(BIN)/python -m tests.support.kafka.smoke_clients

kafka-release: $(STAMP)-test  ## what a Kafka release changed, and the lines that our tables lack: make kafka-release VERSION=4.4.0 FROM=3.9.2
	@$(BIN)/python -m tests.support.releases $(or $(VERSION),$(error VERSION=<release> is missing)) \
	  $(addprefix --from ,$(FROM)) $(addprefix --schemas ,$(SCHEMAS)) $(if $(WRITE),--write)

kafka-lock: $(STAMP)-test  ## the lock file of a Kafka release: make kafka-lock VERSION=4.4.0
	@$(BIN)/python -m tests.support.kafka.jar_lock $(or $(VERSION),$(error VERSION=<release> is missing))

unit: unit-core unit-rest  ## fast tests: no broker, no sleeping

CORE := tests/wire tests/policies tests/proxy/core
unit-core: $(STAMP)-test
	$(PYTEST) $(CORE)

unit-rest: $(STAMP)-test $(STAMP)-tools
	nice -n 4 $(PYTEST) tests $(addprefix --ignore ,tests/compiled tests/integration tests/pipeline $(PROCESSES) $(CORE))

unit-compiled: $(STAMP)-test  ## the compiled build beside the source; without a C compiler its tests skip
	nice -n 4 $(PYTEST) tests/compiled

processes: $(STAMP)-test $(STAMP)-tools  ## a real Sluice before brokers that the tests play: faults, fuzz, threats, demo, docs
	$(PYTEST) $(PROCESSES)

integration: integration-security integration-rest  ## a real Apache Kafka, real clients

# Logins and rights: they have brokers of their own.
SECURITY := tests/integration/access $(wildcard $(patsubst %,tests/integration/test_%*.py,access client_tokens custody \
  denied expired gssapi no_ partial_denial publisher_security reauth sasl security tls token_logins))
integration-security: $(STAMP)-test $(STAMP)-tools
	$(PYTEST) $(SECURITY)

integration-rest: $(STAMP)-test $(STAMP)-tools
	$(PYTEST) tests/integration $(addprefix --ignore ,$(SECURITY))

# The integration tests whose outcome depends on the release: brokers' answers, logins, Kafka's clients and tools.
BY_RELEASE := $(patsubst %,tests/integration/test_%.py,access_listings admin api_versions custody groups heard_replies java_clients \
  max_versions partial_denial produce_consume quota_admin reauthentication refusals sasl token_logins \
  transactions wrong_broker)
other-kafkas: $(STAMP)-test  ## what depends on Kafka's release, on the older ones that are tested
	KAFKA=3.9.2 $(BIN)/python -m pytest -q -m "not slow" $(BY_RELEASE)
	KAFKA=4.3.1 $(BIN)/python -m pytest -q -m "not slow" $(BY_RELEASE)

pipeline: pipeline-tables pipeline-rest  ## the jobs on Spark, also with a real Kafka

# The commands, and what writes tables: half of the time.
TABLES := $(addprefix tests/pipeline/,cli ingest maintain migrate)
pipeline-tables: $(STAMP)-test $(STAMP)-tools
	$(PYTEST) $(TABLES)

pipeline-rest: $(STAMP)-test $(STAMP)-tools
	$(PYTEST) tests/pipeline $(addprefix --ignore ,$(TABLES))

test-compiled:  ## the core, fuzz, faults, threats and real clients against the compiled build
	@$(MAKE) --no-print-directory unit-compiled ALL=1

fuzz: SECONDS ?= 300
fuzz: SEED ?= $(shell date +%s)
fuzz: $(STAMP)-test  ## both sides, made-up and mutated frames: make fuzz SECONDS=600 SEED=7
	@echo "SEED=$(SEED) SECONDS=$(SECONDS)"
	SEED=$(SEED) SECONDS=$(SECONDS) HONEST_P99_MS=$(or $(HONEST_P99_MS),50) $(BIN)/python -m pytest tests/fuzz -q -s

threats: SECONDS ?= 60
threats: $(STAMP)-test  ## every threat of docs/use/threats.md in its long form, with its figures
	SECONDS=$(SECONDS) $(BIN)/python -m pytest tests/threats -q -s

bench: $(STAMP)-test $(STAMP)-bench $(STAMP)-build  ## both builds and the peers; writes bench/RESULTS.md and bench/results.svg
	$(BIN)/python -m bench

bench-quota: $(STAMP)-test  ## rates under quotas, with a real Kafka; its section of bench/RESULTS.md
	$(BIN)/python -m bench.quota

bench-purgatory: $(STAMP)-test $(STAMP)-build  ## Kafka's benchmark of its purgatory; its section of bench/RESULTS.md
	$(BIN)/python -m bench.purgatory

bench-memory: $(STAMP)-test $(STAMP)-bench  ## memory limits, with a real Kafka; its sections of bench/RESULTS.md
	$(BIN)/python -m bench.memory

bench-telemetry: $(STAMP)-test  ## CPU cost of telemetry; its section of bench/RESULTS.md
	$(BIN)/python -m bench.telemetry

bench-policies: $(STAMP)-test  ## CPU cost of policies by what they need; its section of bench/RESULTS.md
	$(BIN)/python -m bench.policy_costs

bench-fairness: $(STAMP)-test $(STAMP)-bench  ## bulk flows and a small client; its section of bench/RESULTS.md
	$(BIN)/python -m bench.fairness

bench-tls: $(STAMP)-test $(STAMP)-build  ## TLS against HAProxy; its section of bench/RESULTS.md
	$(BIN)/python -m bench.tls

bench-path: $(STAMP)-test $(STAMP)-build  ## CPU of a quota in one process, both builds; its section of bench/RESULTS.md
	$(BIN)/python -m bench.path

bench-replay: $(STAMP)-test $(STAMP)-build  ## calls and instructions of single requests; sets the ceilings of the tests; its section of bench/RESULTS.md
	$(BIN)/python -m bench.replay

bench-clients: $(STAMP)-test $(STAMP)-build  ## real producers and consumers, with a real Kafka; its section of bench/RESULTS.md
	$(BIN)/python -m bench.clients

bench-requests: $(STAMP)-test $(STAMP)-build  ## long requests and whole connections beside HAProxy; its section of bench/RESULTS.md
	$(BIN)/python -m bench.requests

soak: MINUTES ?= 30
soak: $(STAMP)-test $(STAMP)-build  ## mixed load on the compiled build, and whether it leaks: make soak MINUTES=30; its section of bench/RESULTS.md
	$(BIN)/python -m bench.soak --minutes $(MINUTES)

bench-image: $(STAMP)-test  ## size, start and memory of the image; its section of bench/RESULTS.md
	$(BIN)/python -m bench.image

bench-pod: $(STAMP)-test $(STAMP)-tools  ## the image in a pod: restarts, drain, upgrade; its section of bench/RESULTS.md
	SLUICE_WRITE_POD_FIGURES=1 $(BIN)/python -m pytest tests/integration/pods -q

bench-pipeline: $(STAMP)-test $(STAMP)-bench  ## the jobs on Spark, 5 and 20 million rows, beside DuckDB; its section of bench/RESULTS.md
	$(BIN)/python -m bench.pipeline

report-large: ROWS ?= 2e8
report-large: $(STAMP)-test  ## a month of forty teams on a Spark cluster of two workers: make report-large ROWS=2e7; its section of bench/RESULTS.md
	$(BIN)/python -m bench.pipeline.large --rows $(ROWS)

bench-whatif: $(STAMP)-test $(STAMP)-tools  ## usage, recommended quotas, predictions and the alerts of a stream in real runs; their sections of bench/RESULTS.md
	SLUICE_WRITE_WHATIF_FIGURES=1 $(BIN)/python -m pytest $(addprefix tests/pipeline/end_to_end/test_,usage.py recommend.py whatif.py stream_latency.py) -q

bench-compare: $(STAMP)-test  ## CPU of this tree and of a revision in one run: make bench-compare BASE=HEAD~1
	$(BIN)/python -m bench.compare $(or $(BASE),$(error BASE=<revision> is missing))

audit: | $(BIN)/python  ## known vulnerabilities of the locked packages; "not checked" (exit code 2) without data
	@PATH="$(BIN):$$PATH" $(BIN)/python requirements/audit

sbom: | $(BIN)/python  ## the bill of materials (CycloneDX) of the locked packages
	@$(BIN)/python .build/sbom

helm: $(STAMP)-test  ## the files made from the charts: schemas, tables, rendered manifests; their archives in dist/
	$(BIN)/python -m tests.support.kubernetes.chart_files

checkov: $(STAMP)-test  ## the rendered charts by checkov; "not checked" (exit code 2) where it is not installed
	@PATH="$(BIN):$$PATH" $(BIN)/python helm/checkov

apiserver:  ## a Kubernetes control plane and Helm for tests, built by Go into .cache (15 minutes of CPU, once)
	nice sh tests/support/kubernetes/build.sh "$(CURDIR)/.cache/kubernetes"

image: BUILDER = $(or $(shell docker info >/dev/null 2>&1 && echo docker || command -v podman || command -v buildah),$(error docker, podman or buildah is needed))
image: EPOCH = $(shell git log -1 --format=%ct)
image: VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
image:  ## the image sluice:VERSION, by docker, podman or buildah; BASE= is another base, COMPILE=0 makes it pure, LOCK=msk has AWS's library
	SOURCE_DATE_EPOCH=$(EPOCH) $(BUILDER) build $(if $(BASE),--build-arg BASE=$(BASE)) $(if $(COMPILE),--build-arg COMPILE=$(COMPILE)) $(if $(LOCK),--build-arg LOCK=$(LOCK)) --build-arg VERSION=$(VERSION) \
	  --build-arg REVISION=$(shell git rev-parse HEAD) --build-arg SOURCE_DATE_EPOCH=$(EPOCH) --tag sluice:$(VERSION) .

wheel: $(STAMP)-build  ## dist/: the pure wheel, and the compiled one for this platform (needs a C compiler)
	$(BUILD_WHEEL) -w dist .
	SLUICE_COMPILE=1 $(BUILD_WHEEL) -w dist .

docs: $(STAMP)-test  ## the site, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file .mkdocs.yml

changelog: $(STAMP)-test  ## what the next release's entry would say
	$(BIN)/towncrier build --draft --version next

# What each lock pins, in the words of uv: the dependencies, extras and groups of pyproject.toml.
LOCK_run      := pyproject.toml --group install
LOCK_demo     := pyproject.toml --group install --extra demo
LOCK_msk      := pyproject.toml --group install --extra msk
LOCK_pipeline := pyproject.toml --group install --group java --extra pipeline
LOCK_test     := pyproject.toml --group test --extra demo --extra msk --extra pipeline
LOCK_build    := --group build -c requirements/run.txt
LOCK_bench    := --group bench -c requirements/test.txt
LOCK_clients  := --group clients

lock: $(addprefix lock-,run demo msk pipeline test build bench clients)  ## pin requirements/*.txt again (needs uv)

lock-%:
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header $(LOCK_$*) -o requirements/$*.txt

# Unpacked, not installed: the environment keeps the source of the checkout.
$(COMPILED)/.stamp: .build/build_backend.py $(shell find sluice wire policies proxy -type f ! -name '*.pyc') | $(STAMP)-demo $(STAMP)-build
	@$(BIN)/python -m bench.harness.compiled_build $(COMPILED)

# Tools that pip does not have: a browser and promtool. If they cannot be installed, their tests skip and say so.
$(STAMP)-tools: tests/tools.sh | $(BIN)/python
	sh tests/tools.sh
	touch $@

# One environment; a wider set of requirements is laid over a narrower one.
$(STAMP)-%: requirements/%.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/$*.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Sluice needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:  ## forget everything that was made
	rm -rf $(VENV) .cache build dist site reports *.egg-info
