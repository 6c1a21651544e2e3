# Every target does its own set-up: all it needs is Python 3.11 or newer, git and a package index.
SHELL   := /bin/bash
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-sglang test-vllm lint docs bench-overhead bench-client bench-probe bench-parse bench-stats bench-until bench-duet bench-history bench-list bench-factors bench-bisect bench-campaign bench-help gate gate-slowed clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v < (3, 15) else f"benchharness needs Python 3.11 to 3.14, but $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.12 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing benchharness into $(VENV)"
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@echo "installing what tests and checks need"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[dev]'
	@touch $@

demo: $(VENV)/.core ## Launch a real engine with speculative decoding, measure it, compare
	$(BIN)/benchharness run experiments/quickstart.yaml

# Six launches of each stack decide also where a starved client spoils two. An invalid run is the gate's to judge.
GATE := --thresholds experiments/gates/quickstart.yaml
gate: $(VENV)/.core ## Run the quickstart with six launches of each stack and gate it
	$(BIN)/benchharness run experiments/quickstart.yaml --set name=quickstart-gate \
	  --set 'workload.context_tokens=[128, 512]' --set measure.launches=6 || test $$? -eq 4
	$(BIN)/benchharness gate quickstart-gate $(GATE) --baseline quickstart-gate:off

# Drafts of 48 tokens, of which hardly more are accepted than of 4: the gate must see it.
gate-slowed: $(VENV)/.core ## The same with a slowdown put in: fails unless the gate ends 1
	$(BIN)/benchharness run experiments/quickstart.yaml --set name=quickstart-slowed \
	  --set 'matrix.speculation.draft-4={args.speculative.draft.n_max: 48}' \
	  --set 'workload.context_tokens=[128]' --set measure.launches=6 || test $$? -eq 4
	$(BIN)/benchharness gate quickstart-slowed $(GATE) --baseline quickstart-slowed:off; test $$? -eq 1

test: lint ## Lint, types, layers and all tests
	$(BIN)/python -m pytest -m "not sglang and not vllm and not gpu"

test-sglang: $(VENV)/.dev ## The real SGLang on the CPU, end to end (installs 3 GB once)
	$(BIN)/python -m pytest -m sglang tests/sglang

test-vllm: $(VENV)/.dev ## The real vLLM on the CPU, end to end (installs 2 GB once)
	$(BIN)/python -m pytest -m vllm tests/vllm

lint: $(VENV)/.dev ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.core ## Write the parts of docs/ that come from the code, and the picture
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/picture.py

bench-overhead: $(VENV)/.core ## The harness's own share of a campaign's wall time
	$(BIN)/python benchmarks/bench_overhead.py

bench-client: $(VENV)/.dev ## The client's timing error beside other clients'
	$(BIN)/python benchmarks/bench_client.py

bench-probe: $(VENV)/.core ## What the probe costs the engine's host, a cycle
	$(BIN)/python benchmarks/bench_probe.py --write

bench-parse: $(VENV)/.core ## How fast logs are read, beside grep -c
	$(BIN)/python benchmarks/bench_parse.py --write

bench-stats: $(VENV)/.core ## False alarms, coverage and power by simulation (five minutes)
	$(BIN)/python benchmarks/bench_stats.py --write

bench-history: $(VENV)/.core ## Change points over time: false alarms and power by simulation
	$(BIN)/python benchmarks/bench_history.py --write

bench-list: $(VENV)/.core ## How long it takes to list 10,000 stored runs
	$(BIN)/python benchmarks/bench_list.py --write

bench-factors: $(VENV)/.core ## Launches that name a set of differences, by simulation (eight minutes)
	$(BIN)/python benchmarks/bench_factors.py --write

bench-until: $(VENV)/.core ## False alarms and launches saved by run --until decided, by simulation
	$(BIN)/python benchmarks/bench_until.py --write

bench-duet: $(VENV)/.core ## Width of intervals by duet and by interleaved launches, by simulation
	$(BIN)/python benchmarks/bench_duet.py --write

bench-bisect: $(VENV)/.dev ## What a bisection costs and finds, beside plain bisection and git_bayesect (20 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_bisect.py --write

bench-campaign: $(VENV)/.core ## What whole bisection campaigns cost and find, by simulation (six minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bench_campaign.py --write

bench-help: $(VENV)/.core ## How long benchharness --help takes beside an import of click
	$(BIN)/python benchmarks/bench_help.py

clean: ## Remove the virtual environment and caches of this checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
