# Two commands do all set-up on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help setup demo test lint types pytest browser docs dist clean

help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "FADiff needs Python 3.11 or newer: run make PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	# Real models for the importer's tests; without what they need to run, because only their files are read.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps rapidocr-onnxruntime silero-vad
	# What proofs need is compiled once.
	$(BIN)/python -m fadiff.search.solver
	@touch $(READY)

setup: $(READY)  ## the virtual environment, with everything in it

demo: $(READY)  ## schedule ResNet-18 on a Gemmini, then prove the schedule by running it
	$(BIN)/fadiff optimize resnet18 --hardware gemmini-large -o resnet18.schedule.json
	$(BIN)/fadiff evaluate resnet18.schedule.json
	$(BIN)/fadiff verify resnet18.schedule.json

test: lint types pytest  ## lint, types, tests: what CI runs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/basedpyright

pytest: $(READY) browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The tests of the HTML report drive a real browser. Where it is missing and may not be installed, they are skipped.
browser:
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && grep -qs '^ID=debian' /etc/os-release \
	  && timeout 300 sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium' > /dev/null 2>&1; } \
	  || echo 'No chromium: the browser tests will be skipped (Debian: apt-get install chromium).'

docs: $(READY)  ## the documentation as a site, in site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

dist: $(READY)  ## the package in dist: source and a wheel, which is tried in an environment of its own
	rm -rf dist
	$(BIN)/python -P -m build --outdir dist .
	try=$$(mktemp -d) && trap 'rm -rf "$$try"' EXIT && wheel=$$(realpath dist/*.whl) \
	  && $(BIN)/python -m venv "$$try/venv" \
	  && "$$try/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$$wheel" \
	  && cd "$$try" && PATH="$$try/venv/bin:$$PATH" && fadiff models \
	  && fadiff optimize mobilenet_v1:size=64 --method greedy -o small.schedule.json \
	  && fadiff verify small.schedule.json && fadiff report small.schedule.json -o small.html && test -s small.html

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis dist site *.schedule.json
