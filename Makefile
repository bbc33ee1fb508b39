# Two commands do everything: `make demo` and `make test`. Each makes its own virtual environment on first use.
PYTHON ?= python3

.PHONY: demo test clean
.DEFAULT_GOAL := demo

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv-test/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

demo: .venv/installed
	.venv/bin/groundling demo demo

test: .venv-test/installed
	.venv-test/bin/ruff format --check .
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy
	.venv-test/bin/pytest

clean:
	rm -rf .venv .venv-test demo build *.egg-info
