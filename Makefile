# Two commands are all you need: `make demo` and `make test`. Both set up .venv on first use.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compute with one BLAS thread everywhere: results are the same bit for bit, and draws are what
# runs in parallel.
export OPENBLAS_NUM_THREADS := 1
# Compiled files are kept: without them every process of the tests would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE

# uv installs in a third of the time that pip takes.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python

.PHONY: demo figure docs five-ways test test-all test-fast test-slow test-browser test-spark test-ray mutants bench \
        bench-quick lint types layers packages sbom test-lowest installed kernel sanitize clean

demo: $(VENV)/.installed
	$(BIN)/tvdbayes demo --out demo

figure: $(VENV)/.installed
	$(BIN)/tvdbayes reproduce figure-1 --mode corrected --out demo

# The site, in docs/_build/html: every code cell is run, warnings are errors, links are followed.
docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

# The five ways by which people come, each in a fresh environment, beside what `make docs` has built.
five-ways: $(VENV)/.installed-docs
	$(BIN)/python docs/five_ways.py

# Types are checked on a core that the tests leave idle at times.
test: $(VENV)/.installed-test
	$(MAKE) -j4 lint types layers test-fast

test-fast: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Beside the tests: slow ones, every benchmark on little data, Ray, and what needs a browser.
test-all: test test-slow bench-quick test-ray test-browser

test-slow: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n 2 -m slow

# Debian: chromium and chromium-driver. The site is looked at if `make docs` has built it.
test-browser: $(VENV)/.installed-test
	$(BIN)/python -m pytest tests/browser -rs

# Small bugs planted one at a time (tests/mutants): each must make the tests named for it fail.
mutants: $(VENV)/.installed-test
	$(BIN)/python tests/mutants/run.py

# Engines that are heavy to install: Spark (needs Java), and Ray.
test-spark: $(VENV)/.installed-test
	$(INSTALL) 'ibis-framework[pyspark]>=10'
	$(BIN)/python -m pytest tests/engines/test_spark.py -rs

test-ray: $(VENV)/.installed-test $(VENV)/.installed-ray
	$(BIN)/python -m pytest tests/engines/test_ray.py -rs

# The compiled kernel, beside its source; an install has made it where there is a compiler.
kernel:
	$(PYTHON) src/tvdbayes/kernel/build.py

# The kernel under GCC's sanitizers of addresses and undefined behaviour, run by its tests.
SANITIZED = $(CURDIR)/build/sanitized.so
sanitize: $(VENV)/.installed-test
	mkdir -p build
	$(BIN)/python src/tvdbayes/kernel/build.py --sanitize --out $(SANITIZED)
	TVDBAYES_KERNEL_LIBRARY=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest -p no:xdist tests/test_kernel*.py -k "not processes and not wheel and not scalar"

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/repo-review --show err .

types: $(VENV)/.installed-test
	$(BIN)/mypy

layers: $(VENV)/.installed-test
	$(BIN)/lint-imports

# The sdist, and the wheels made from it: with the kernel, and pure, as where there is no compiler.
# Each is installed where there is nothing but what it needs, and gives every public name, what the
# README shows, and the demo.
packages: | $(BIN)/uv
	rm -rf dist
	$(BIN)/uv build --quiet --python $(BIN)/python
	CC=false $(BIN)/uv build --quiet --python $(BIN)/python --wheel --out-dir dist dist/*.tar.gz
	set -e; for wheel in dist/*.whl; do \
	    $(BIN)/uv venv --quiet --clear --python $(BIN)/python dist/bare; \
	    $(BIN)/uv pip install --quiet --python dist/bare/bin/python $$wheel; \
	    (cd dist; bare/bin/tvdbayes --version; bare/bin/python -c 'from tvdbayes import *'; \
	     bare/bin/python ../docs/readme.py --check); \
	    $(BIN)/uv pip install --quiet --python dist/bare/bin/python "$$wheel[demo]"; \
	    (cd dist; bare/bin/tvdbayes demo --out bare/demo > bare/demo.txt); \
	done
	rm -rf dist/bare

# The wheel and what it brings along, as a CycloneDX list of components.
sbom: packages
	$(BIN)/uv venv --quiet --python $(BIN)/python dist/bare
	$(BIN)/uv pip install --quiet --python dist/bare/bin/python dist/*-any.whl
	$(BIN)/uv tool run --quiet --from 'cyclonedx-bom>=7' cyclonedx-py environment \
	    --output-reproducible --output-file dist/tvdbayes.cdx.json dist/bare/bin/python
	rm -rf dist/bare

# The tests with the oldest versions that pyproject.toml admits.
LOWEST := build/lowest
# Old versions call newer ones by names that these announce to change.
OLD_NAMES := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning -W ignore::FutureWarning
test-lowest: | $(BIN)/uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct \
	    -e '.[demo,test,all]'
	$(LOWEST)/bin/python -m pytest -n 2 -m "not slow" $(OLD_NAMES)

bench: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks

# Shows that the benchmarks work; prints, and keeps nothing.
bench-quick: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks --quick

$(BIN)/uv:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(VENV)/.installed: pyproject.toml | $(BIN)/uv
	$(INSTALL) -e '.[demo]'
	touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/uv
	$(INSTALL) -e '.[demo,test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/uv
	$(INSTALL) -e '.[demo,docs]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-ray: pyproject.toml | $(BIN)/uv
	$(INSTALL) -e '.[ray]'
	touch $@

# All that the targets above need, so that two of them can run at a time.
installed: $(VENV)/.installed-test $(VENV)/.installed-docs $(VENV)/.installed-ray

clean:
	rm -rf $(VENV) demo docs/_build docs/results docs/api/generated docs/api/messages.md
