# The interface of the workshop: people and CI call these targets and nothing else.
PYTHON   ?= python3
SCENARIO ?= scenarios/llama3-405b-54d.yaml
BIN      := .venv/bin
INSTALL  := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# pip compiles what it copies, and an editable install copies nothing; where nobody may write bytecode later, do it now.
# Neighbours in a file stay in one process as long as all have enough to do, so that they share what they prepare.
TEST     := $(BIN)/python -m pytest -n auto --dist worksteal
COMPILE  := $(BIN)/python -m compileall -q cli.py sim analysis

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run check house test mutants fresh validate nightly bench fit-steps fit-serving validation-page pictures docs transcripts clean

help: ## show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Running needs a fraction of what developing needs, so that a first answer comes quickly.
.venv/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	$(COMPILE)
	@touch $@

.venv/.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e ".[dev,docs]"
	$(COMPILE)
	@touch $@ .venv/.core

run: .venv/.core ## answer one question: SCENARIO=path
	$(BIN)/ettrick run $(SCENARIO)

check: .venv/.stamp ## lint, format, types, and the ceilings of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.house --check

house: .venv/.stamp ## the size and the order of the code, and their targets
	$(BIN)/python -m tests.house

test: .venv/.stamp ## every test but the nightly ones and the benchmarks
	$(TEST)

# Arguments by ARGS: --only 3 7, --map FILE to keep which tests reach which, --out FILE, and --before FILE to compare.
mutants: .venv/.stamp ## change the code in 60 places, one at a time, and say which test notices; ARGS=options
	$(BIN)/python -m tests.mutants $(ARGS)

validate: .venv/.stamp ## the validation table; SEED=n, or random, for another seed than the fixed one
	$(BIN)/ettrick validate $(if $(SEED),--seed $(SEED))

# The seed is drawn and said unless it is given; with PART=k/n it is part k of n, from 0 on, of what `make test` leaves out.
# The table has simulated its rows, so the tests do not simulate them again.
nightly: SEED ?= $(shell od -An -N3 -tu4 /dev/urandom | tr -d ' ')
nightly: SEED := $(SEED)
nightly: .venv/.stamp ## all tests with new random numbers, and the validation table; SEED=n repeats it, PART=k/n is a part of it
	@echo "to repeat it: make nightly SEED=$(SEED)$(if $(PART), PART=$(PART))"
ifdef PART
	ETTRICK_SEED=$(SEED) $(TEST) -m "nightly or hypothesis" --part $(PART) --timeout 1800
else
	$(BIN)/ettrick validate --seed $(SEED)
	ETTRICK_SEED=$(SEED) $(TEST) -m "not bench" --timeout 1800 --deselect tests/literature/test_validation.py::test_simulated
endif

bench: .venv/.stamp ## time, events and memory at growing cluster sizes
	$(BIN)/python -m tests.bench

# The published steps are not part of the repository: they lie next to it, or in the folder DATA.
fit-steps: .venv/.stamp ## fit the step model to published steps; DATA=folder of the tables
	$(BIN)/python -m tests.calibrate $(if $(DATA),--data $(DATA))

fit-serving: .venv/.stamp ## fit the inference model to published steps; DATA=folder of the tables
	$(BIN)/python -m tests.calibrate.serving $(if $(DATA),--data $(DATA))

validation-page: .venv/.stamp ## simulate the validation table, and write its page of the reference
	$(BIN)/python -m tests.literature.record

# Of the shipped results; step times are drawn by docs/pictures/steps.py, which needs the published steps.
pictures: .venv/.stamp ## draw the pictures of README and the documentation
	rm -rf build/pictures
	$(BIN)/ettrick run llama3-405b-54d --out build/pictures/llama3 --quiet > /dev/null
	$(BIN)/ettrick plot build/pictures/llama3 where-the-time-goes --out docs/howto/images/where-the-time-goes.svg --overwrite
	$(BIN)/ettrick sweep recovery-at-scale --out build/pictures/recovery --quiet > /dev/null
	$(BIN)/ettrick plot build/pictures/recovery the-answer --out docs/howto/images/recovery-at-scale.svg --overwrite
	$(BIN)/ettrick sweep redundancy-or-restart --out build/pictures/redundancy --quiet > /dev/null
	$(BIN)/ettrick plot build/pictures/redundancy the-answer --out docs/howto/images/redundancy-or-restart.svg --overwrite
	$(BIN)/python docs/pictures/recovery.py docs/explanation/images
	$(BIN)/python docs/pictures/mathematics.py docs/explanation/images
	$(BIN)/python docs/pictures/queues.py docs/explanation/images/queues.svg
	$(BIN)/python docs/pictures/serving.py docs/explanation/images

docs: .venv/.stamp ## write the schema and the reference, then the site in docs/_build; a warning is an error
	$(BIN)/ettrick schema > scenarios/scenario.schema.json
	$(BIN)/python docs/_generate.py
	$(BIN)/sphinx-build -q -W --keep-going docs docs/_build

# A page named by PAGES: a few seconds; all of them some minutes. The tests of the documentation compare all but numbers.
transcripts: .venv/.stamp ## run the commands of the documentation, and show what they print now; PAGES=files
	$(BIN)/python -m tests.docs_transcripts $(PAGES)

# The newcomer's way: a clone of HEAD, an empty home, and from this environment only the way to a package index
# (pip's settings, proxies, certificates). The user's pip configuration lives in the home that is swapped: point at it.
fresh: ## test and run a clone of HEAD in an empty environment
	@set -eu; \
	git rev-parse --quiet --verify HEAD >/dev/null || { echo "fresh: nothing is committed yet" >&2; exit 1; }; \
	test -z "$$(git status --porcelain)" || echo "fresh: uncommitted changes are not in the clone" >&2; \
	python=$$($(PYTHON) -c 'import sys; print(sys.executable)'); \
	folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; trap 'exit 130' INT TERM; \
	mkdir "$$folder/home"; git clone --quiet . "$$folder/checkout"; \
	set -- "PATH=$$PATH" "HOME=$$folder/home" "LANG=$${LANG:-C.UTF-8}"; \
	for name in $$(env | sed -n -E 's/^((PIP|SSL)_[A-Z0-9_]+|[A-Za-z]+_(proxy|PROXY))=.*/\1/p'); do \
	  eval "set -- \"\$$@\" \"$$name=\$$$$name\""; \
	done; \
	if test -z "$${PIP_CONFIG_FILE:-}"; then \
	  for file in "$${XDG_CONFIG_HOME:-$$HOME/.config}/pip/pip.conf" "$$HOME/.pip/pip.conf"; do \
	    if test -f "$$file"; then set -- "$$@" "PIP_CONFIG_FILE=$$file"; break; fi; \
	  done; \
	fi; \
	for target in test run; do \
	  echo "fresh: make $$target"; \
	  env -i "$$@" make --no-print-directory -C "$$folder/checkout" "PYTHON=$$python" $$target; \
	done

clean: ## remove everything that can be made again
	rm -rf .venv build dist docs/_build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
