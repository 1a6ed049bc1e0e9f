# Needs Python 3.11 or newer and make, nothing else: every target builds its own .venv when it is missing or stale.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := $(VENV)-lowest
IN_LOWEST := NUMBA_CACHE_DIR=$(abspath $(LOWEST))/kernels OMP_NUM_THREADS=1 $(LOWEST)/bin
TORCH_PIN := $(VENV)-constraints/torch.txt
REPRODUCE_OUT := results/arithmetic-quick

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help announce reproduce test test-studies test-all test-lowest test-triton test-cuda docs test-docs lint-and-kernels lint format bench bench-cuda plan constraints clean check-python

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

reproduce: $(VENV)/.installed-cli  ## The paper's arithmetic tasks, quick preset, with the report
	$(BIN)/python -m studies reproduce arithmetic --preset quick --resume --out $(REPRODUCE_OUT)

# pytest's workers would each compile the kernels; --dist=worksteal keeps both at work to the end. Bytecode is kept, whatever the
# environment says: else each worker, and each process that a test starts, compiles the package again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist=worksteal --durations=15

# In two parts: what tests import stays in the memory of pytest's workers to their end.
OF_TABLES := tests/batch tests/cli tests/estimators tests/graph tests/tables tests/test_bench_cuda.py tests/test_benchmarks.py tests/test_mutants.py

test: announce lint-and-kernels test-triton  ## Lint, types, import rules, and a covering of the tests of the library and its commands
	$(PYTEST) $(addprefix --ignore=,$(OF_TABLES) tests/site tests/studies)
	$(PYTEST) $(OF_TABLES)

announce:
	@echo "About 5 minutes on two idle cores. The first time about 9, as packages are installed and kernels compiled."

test-studies: $(VENV)/.installed-dev  ## The tests of studies/
	$(PYTEST) tests/studies

test-all: lint-and-kernels test-triton  ## Every case of every test, as CI does nightly
	$(PYTEST) --all $(addprefix --ignore=,$(OF_TABLES) tests/site)
	$(PYTEST) --all $(OF_TABLES)

# numba's kernels are kept apart, as a kernel belongs to one version of it.
test-lowest: check-python  ## The tests with the lowest versions that pyproject.toml allows, in an environment of their own
	$(PYTHON) -m venv --clear $(LOWEST)
	$(PYTHON) -m tests.lowest cli estimators excel fast graph hub onnx plot > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install -c $(LOWEST)/constraints.txt -e '.[cli,estimators,excel,fast,graph,hub,onnx]' \
	  awkward hypothesis pandas polars pytest pytest-timeout pytest-xdist
	$(IN_LOWEST)/python -m tests.compile_kernels
	$(IN_LOWEST)/pytest -n 2 --dist=worksteal \
	  -W default::DeprecationWarning $(addprefix --ignore=tests/,site studies cuda test_bench_cuda.py test_benchmarks.py test_docs.py test_mutants.py)

# A process of its own: Triton reads once whether it is to interpret kernels.
test-triton: $(VENV)/.installed-dev  ## The kernels for CUDA, on the CPU in Triton's interpreter
	TRITON_INTERPRET=1 $(PYTEST) tests/cuda

test-cuda: $(VENV)/.installed-dev  ## The same tests on a GPU; without one they are skipped
	$(BIN)/pytest --durations=15 tests/cuda

# Pages of the gallery run again if they, their data or the library have changed.
docs: $(VENV)/.installed-docs  ## The documentation site, with the gallery run, in build/site
	$(BIN)/python docs/site/gallery.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

test-docs: $(VENV)/.installed-docs  ## The built site in a real browser; without Chromium the tests are skipped
	$(PYTEST) tests/site

# Side by side, for types are checked on one core.
lint-and-kernels: $(VENV)/.installed-dev
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.compile_kernels & kernels=$$!; \
	  $(MAKE) --no-print-directory lint && wait $$kernels || { kill $$kernels 2>/dev/null; exit 1; }

lint: $(VENV)/.installed-dev  ## ruff, mypy, the import rules and the rules of prose
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.prose

format: $(VENV)/.installed-dev  ## Sort imports, fix what ruff can fix, format
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.installed-dev  ## Run the benchmarks
	$(BIN)/python -m benchmarks.run

bench-cuda: $(VENV)/.installed-dev  ## Run those for a GPU, each beside its roofline
	$(BIN)/python -m benchmarks.cuda

plan: $(VENV)/.installed-dev  ## Draw the floor plan of docs/architecture.md from the imports
	PYTHONPATH=. $(BIN)/python docs/plan.py

# Keeps the lines of torch and of Triton, which torch's build for CUDA names, as they stand (edit them to move torch), and takes
# the newest of everything else.
constraints: check-python  ## Regenerate constraints.txt in a throwaway environment
	$(PYTHON) -m venv --clear $(VENV)-constraints
	grep -E '^(torch|triton)==' constraints.txt > $(TORCH_PIN)
	$(VENV)-constraints/bin/python -m pip install -c $(TORCH_PIN) -e '.[chemistry,docs]'
	{ sed '/^[^#]/,$$d' constraints.txt \
	  && $(VENV)-constraints/bin/python -m pip freeze --all --exclude pip --exclude janossy \
	     | sed 's/+[a-z0-9.]*$$//' | LC_ALL=C sort -f; } > $(VENV)-constraints/new.txt
	grep -q '^torch==' $(VENV)-constraints/new.txt && mv $(VENV)-constraints/new.txt constraints.txt
	rm -rf $(VENV)-constraints

clean:  ## Remove environments, builds and caches (results stay)
	rm -rf $(VENV) $(VENV)-constraints $(LOWEST) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks studies examples docs -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "janossy needs Python 3.11 or newer, and '$(PYTHON)' is too old or missing; name one: PYTHON=python3.12 make ..." >&2; exit 1; }

$(VENV)/.created: | check-python
	@echo "Creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }
	@touch $@

# dev contains cli and fast, so either install serves `make reproduce`.
$(VENV)/.installed-cli: pyproject.toml constraints.txt $(VENV)/.created
	$(BIN)/python -m pip install -c constraints.txt -e '.[cli,fast]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(VENV)/.created
	$(BIN)/python -m pip install -c constraints.txt -e '.[dev]'
	@touch $(VENV)/.installed-cli $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt $(VENV)/.created
	$(BIN)/python -m pip install -c constraints.txt -e '.[docs]'
	@touch $(VENV)/.installed-cli $(VENV)/.installed-dev $@
