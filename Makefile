# make demo   set up, then rerank the bundled rollouts with the embedded default
# make test   set up, then every test not marked slow
# make lint, make test-slow, make bench, make clean
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

.PHONY: demo test test-slow lint bench clean

.venv/.run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing stepgauge into .venv (first time: a few minutes, mostly torch)"
	$(PIP) -e .
	@touch $@

.venv/.dev: .venv/.run
	$(PIP) -e '.[dev]'
	@touch $@

demo: .venv/.run
	$(BIN)/stepgauge rerank bundled --n 8 --out $(OUT)/demo_picks.jsonl
	$(BIN)/stepgauge score bundled --out $(OUT)/demo_scores.jsonl --limit 64
	@echo "wrote $(OUT)/demo_picks.jsonl (the pick of each problem, and why) and $(OUT)/demo_scores.jsonl (every step's score)"

test: .venv/.dev
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: .venv/.dev
	$(BIN)/python -m pytest -m slow

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.dev
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
