# make: set up and run the demonstration.  make test: set up and run the tests.  make cpu: small real data.
# make test-slow: tests marked as slow, which make test leaves out. make test-fuzz: all cases of tests/fuzz, of which
# make test has a quarter.
# make test-mutants: planted privacy bugs, each of which a test must notice.
# make test-record: predictions and epsilons of the recorded commit and of this tree, on this machine. make test-all: these
# five. make test-slurm: the tests that need a Slurm, on one of their own (as root, on Debian).
# make docs: the docs as a site, site/index.html; a link that leads nowhere is an error.
# make test-matrix: each Python that is found, with the newest dependencies, and the oldest with the lowest (an hour, gigabytes).
# DEVICE=cuda, with any of these: PyTorch's CUDA build. It stays until DEVICE=cpu. TORCH_INDEX=URL: an index of CPU builds.
CORES ?= $(shell nproc)
PYTHON3 ?= python3
DEVICE ?= $(patsubst .venv/.ready-%,%,$(firstword $(wildcard .venv/.ready-*) .venv/.ready-cpu))
TORCH_INDEX ?=
PIP = .venv/bin/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
RUN = .venv/bin/dpgraph run --cores $(CORES)

# each of some hundred processes would compile the sources again
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo cpu paper test test-slow test-fuzz test-mutants test-record test-all test-slurm test-matrix docs lint clean setup
demo: setup
	$(RUN) --suite demo
	@echo "$(CURDIR)/results/demo/index.html"

cpu: setup
	$(RUN) --keep-going --suite cpu
	@echo "$(CURDIR)/results/cpu/index.html"

paper: setup
	$(RUN) --keep-going --suite paper
	@echo "$(CURDIR)/results/paper/index.html"

test: setup
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n $(CORES) --dist worksteal

test-slow: setup
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n $(CORES) --dist worksteal -m slow

test-fuzz: setup
	DPGRAPH_FUZZ_ALL=1 OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n $(CORES) --dist worksteal tests/fuzz

test-mutants: setup
	.venv/bin/python -m tests.mutants.run

test-record: setup
	.venv/bin/python -m tests.record.compare

test-all: test test-slow test-fuzz test-mutants test-record

test-slurm: setup
	tests/slurm/install.sh
	slurm=$$(tests/slurm/start.sh) || exit 1; trap tests/slurm/stop.sh EXIT; trap 'exit 130' INT TERM; eval "$$slurm"; \
	  OMP_NUM_THREADS=1 .venv/bin/python -m pytest -q -n 6 --dist loadfile tests/slurm

test-matrix:
	$(PYTHON3) envs/matrix.py

docs: setup
	$(PIP) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict
	@echo "$(CURDIR)/site/index.html"

lint: setup
	.venv/bin/ruff check . && .venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/snakefmt --check Snakefile rules workflow/Snakefile
	.venv/bin/snakemake --lint

setup: .venv/.ready-$(DEVICE)

# torch comes first and pinned: a later resolver would replace it by a build with gigabytes of CUDA packages
.venv/.ready-%: constraints.txt pyproject.toml
	@$(PYTHON3) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON3) is too old: expected Python >= 3.11 (set PYTHON3=...)"; exit 2; }
	$(PYTHON3) -m venv .venv
	@rm -f .venv/.ready-*
	@torch=$$(.venv/bin/python envs/torch_build.py '$*' --version "$$(sed -n 's/^torch==//p' constraints.txt)" \
	  --index '$(TORCH_INDEX)') && echo pip install $$torch && $(PIP) $$torch
	$(PIP) -e '.[dev]'
	@touch $@

clean:
	rm -rf results logs benchmarks .snakemake
