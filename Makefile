# `make demo` and `make test` set up everything they need in .venv, from a bare Python 3.11 to 3.14.
# PYTHON=/path/to/python3 chooses one, VENV=folder another place.
VENV ?= .venv
BIN := $(VENV)/bin
RUN := $(VENV)/installed
TOOLS := $(VENV)/installed-tools

.PHONY: install tools demo test test-units test-live test-alone hygiene slow cluster-test lint docs bench fuzz chaos criu frozen frozen-claims always

install: $(RUN)

# The rest, for all that develops natjam: what the tests, the linters and the pages need.
tools: $(TOOLS)

.PRECIOUS: $(VENV)/pyvenv.cfg
$(VENV)/pyvenv.cfg: always
	@PYTHON="$(PYTHON)" .ci/make-venv $(VENV)

$(RUN): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@.ci/install $(VENV) .
	@touch $@
	@echo "natjam is installed: call $(BIN)/natjam, or 'source $(BIN)/activate' first and then natjam"

$(TOOLS): $(VENV)/pyvenv.cfg pyproject.toml constraints.txt
	@.ci/install $(VENV) '.[test,dev]'
	@touch $(RUN) $@

demo: install
	$(BIN)/natjam demo

# Live runs go two at a time.  Tests that compute go beside them with a smaller share of the cores, so that no run is late.
# What compares times has the machine for itself.
NOT_SLOW := $(BIN)/python -m pytest -m 'not slow' --durations 20
ALONE := tests/live/test_engines_agree.py tests/live/test_measure_campaign.py tests/live/test_measure_parts.py
test: tools
	.ci/beside units '$(MAKE) test-units' live '$(MAKE) test-live'
	$(MAKE) test-alone

test-units: tools
	$(NOT_SLOW) -n logical --dist loadfile --ignore tests/live --ignore tests/browser --ignore tests/hosts \
		--ignore tests/benchmarks --ignore tests/hygiene

test-live: tools
	$(NOT_SLOW) -v -n 2 --dist loadfile --no-loadscope-reorder tests/live tests/browser $(addprefix --ignore ,$(ALONE))

test-alone: tools
	$(NOT_SLOW) $(ALONE)

# Whether the pages build and say what is so, and whether natjam installs: .ci/run does this beside the tests.
hygiene: tools
	$(NOT_SLOW) tests/hygiene

# All that `make test` and .ci/run leave out, for it takes long: some three hours.
slow: tools
	-.ci/get-criu
	-.ci/get-hadoop
	.ci/get-sshd
	$(BIN)/python -m pytest -m slow -v -rs --durations 20 $(addprefix tests/,unit browser property hosts hygiene live)

# Four hosts made of namespaces, with Ray brought up on them over SSH.  Needs root; elsewhere it is skipped and says so.
CLUSTER_TESTS ?=
cluster-test: tools
	.ci/get-sshd
	$(BIN)/python -m pytest -rs $(CLUSTER_TESTS) tests/hosts

# A criu for process images, where the system's own does not work; installs nothing outside natjam's own folder.
criu:
	.ci/get-criu

lint: tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check

docs: tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --site-dir site
	@echo 'open site/index.html'

bench: tools
	$(BIN)/python -m pytest tests/benchmarks -s

# Whether what natjam decides is as it was: for changes that must change no decision (four minutes of processor time; the claims as much).
frozen: tools
	$(BIN)/python tests/frozen.py

frozen-claims: tools
	$(BIN)/python tests/frozen.py --claims

# Every kind of input damaged so many times: experiments, jobs, profiles, calibrations, availability, campaigns and their
# plans, faults, journals, runs, traces.
FUZZ ?= 100000
fuzz: tools
	NATJAM_FUZZ=$(FUZZ) $(BIN)/python -m pytest -s -n logical -o timeout=0 \
		tests/property/test_damaged_inputs.py tests/property/test_broken_traces.py -m 'not slow'

# Runs simulated while things go wrong; the seeds are drawn anew each time and printed.  The tests have fixed ones.
SEEDS ?= 1000
chaos: install
	$(BIN)/natjam chaos workloads/catalog/natjam-fig4.yaml --seeds $(SEEDS)
	$(BIN)/natjam chaos workloads/catalog/facebook-50.yaml --seeds $(SEEDS)
