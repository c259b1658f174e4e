# Two commands do everything: `make demo` and `make test`. Both install what is missing first.
PYTHON ?= python3
VENV   ?= .venv
# Where the plain package index would bring a CUDA build of torch, name an index of CPU wheels:
#   make demo TORCH_INDEX=<address of the CPU wheels>
TORCH_INDEX ?=
# How many test processes; each takes about 1 GB.
TEST_WORKERS ?= 2

BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test check bench docs lock clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Canopy needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@echo "Installing into $(VENV): about 700 MB to download, 2.2 GB on disk, a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --progress-bar on --disable-pip-version-check \
	  $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation -e .
	@touch $(STAMP)

# Two logs in, a refusal and a promotion out, a service left answering (`canopy down` stops it).
demo: $(STAMP)
	$(BIN)/canopy demo

test: $(STAMP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist loadfile $(TEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

# Ratios against peers and floors in the same run; wants a quiet machine.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check evalica==0.4.2
	$(BIN)/python -m pytest -m benchmark tests/benchmarks -s

# Rewrite the generated reference pages.
docs: $(STAMP)
	$(BIN)/python docs/generate.py

# Resolve pyproject.toml anew. The lock names torch without its build, so that pip may take any.
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --all-extras --output-file requirements.lock pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --allow-unsafe --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --constraint requirements.lock --output-file requirements-slim.lock pyproject.toml
	sed -i 's/^\(torch==[0-9.]*\)+.*/\1/' requirements.lock

clean:
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
