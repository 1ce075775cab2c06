# Two commands do everything, from nothing but Python 3.11+, make and a package index:
#   make study   the main job
#   make test    all checks that need no GPU
# `make docs` builds the documentation site into site/. All make their own virtual environment in
# .venv, with uv if it is there and pip if not.

VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Libraries of others, some 6 GB with PyTorch's CUDA: a machine installs them once.
LIBRARIES := tests/integrations/requirements.txt
LIBRARY_KEY := $(shell { cat $(LIBRARIES); $(PYTHON) -V; } 2>/dev/null | cksum | cut -d' ' -f1)
LIBRARY_VENV := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sidequest/integrations-$(LIBRARY_KEY)

.PHONY: study test lint slow docs integrations clean

study: $(READY)
	@echo "==> When to explore: eight ways on two small games, and a report"
	$(BIN)/sidequest study quick

test: $(READY)
	@echo "==> Tests (the slow ones are left out: make slow), and lint beside them"
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist loadfile; tests=$$?; \
	wait $$lint || { echo "==> Style or types are wrong: make lint says where"; exit 1; }; \
	exit $$tests

lint: $(READY)
	@echo "==> Style and types"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

slow: $(READY)
	$(BIN)/python -m pytest -q -m slow

integrations: $(LIBRARY_VENV)/.ready
	@echo "==> Tests against Stable-Baselines3, sb3-contrib and TorchRL"
	$(LIBRARY_VENV)/bin/python -m pytest -q -p no:cacheprovider tests/integrations

$(LIBRARY_VENV)/.ready:
	@echo "==> Installing $(LIBRARIES) into $(LIBRARY_VENV), once"
	@$(PYTHON) -m venv --clear $(LIBRARY_VENV)
	@$(LIBRARY_VENV)/bin/python -m pip install -q --upgrade pip
	@$(LIBRARY_VENV)/bin/python -m pip install -q -r $(LIBRARIES)
	@touch $@

docs: $(READY)
	@echo "==> The documentation, strictly: a broken link fails"
	$(BIN)/zensical build --clean --strict
	@echo "==> Open site/index.html"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "sidequest needs Python 3.11 or newer; set PYTHON=... (this is " + sys.version.split()[0] + ")")'
	@if command -v uv >/dev/null; then \
	  echo "==> Installing into $(VENV) with uv"; \
	  uv venv -q --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install -q --python $(BIN)/python -e ".[train]" --group dev; \
	else \
	  echo "==> Installing into $(VENV) with pip (a few minutes)"; \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install -q --upgrade pip && \
	  $(BIN)/python -m pip install -q -e ".[train]" --group dev; \
	fi
	@touch $(READY)

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
