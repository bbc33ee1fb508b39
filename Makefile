# Two commands do everything: `make demo` and `make test`. Each makes its own virtual environment on first use.
# `make attack` runs all damaged inputs and kills, in minutes; `make test` a minute of them.
# `make weights DATA=FOLDER` trains what is in groundling/weights/ anew, in hours; it goes on where it was stopped.
PYTHON ?= python3

.PHONY: demo test attack weights clean
.DEFAULT_GOAL := demo

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[photos,demo]'
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
	.venv-test/bin/python tools/attack.py --seconds 60

attack: .venv-test/installed
	.venv-test/bin/python tools/attack.py

weights: .venv-test/installed
	@test -n "$(DATA)" || { echo "name the data set: make weights DATA=FOLDER"; exit 2; }
	.venv-test/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[vectors]'
	.venv-test/bin/python tools/make_weights.py "$(DATA)"

clean:
	rm -rf .venv .venv-test demo build *.egg-info
