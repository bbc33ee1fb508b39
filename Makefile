# Two commands do everything: `make demo` and `make test`. Each makes its own virtual environment on first use.
# `make test-scoring` runs the tests of scoring where nothing but what scoring needs is installed.
# `make attack` tries 10,000 damaged inputs and 300 kills; `make test` runs a slice of it.
# `make docs` builds the documentation into site/. `make hooks` runs the checks of `make test` at each commit and push.
# `make weights EVERYDAY=FOLDER FLICKR8K=FOLDER` trains what is in groundling/weights/ anew, in hours; it goes on where it
# was stopped. BOXES=FOLDER, a data set with boxes of phrases, also fits the confidence of labels; FLAGS are for both
# calls of tools/make_weights.py: FLAGS='--bfloat16 --at-once' made the grounder of `everyday`.
PYTHON ?= python3

.PHONY: demo test test-scoring attack hooks docs weights clean
.DEFAULT_GOAL := demo

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[photos,demo]'
	@touch $@

.venv-test/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-test
	.venv-test/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

.venv-docs/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

.venv-scoring/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-scoring
	.venv-scoring/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[score]' pytest pytest-timeout hypothesis
	@touch $@

demo: .venv/installed
	.venv/bin/groundling demo demo

test: .venv-test/installed
	.venv-test/bin/ruff format --check .
	.venv-test/bin/ruff check .
	.venv-test/bin/mypy
	.venv-test/bin/pytest

test-scoring: .venv-scoring/installed
	.venv-scoring/bin/pytest tests/metrics tests/test_scoring_alone.py tests/test_files.py tests/commands/test_tokenize_df_score.py --ignore=tests/metrics/test_adapters.py

attack: .venv-test/installed
	.venv-test/bin/python tools/attack.py

hooks: .venv-test/installed
	.venv-test/bin/pre-commit install

docs: .venv-docs/installed
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

weights: .venv-test/installed
	@test -n "$(EVERYDAY)$(FLICKR8K)" || { echo "name the data: make weights EVERYDAY=FOLDER FLICKR8K=FOLDER"; exit 2; }
	.venv-test/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[vectors]'
	test -z "$(EVERYDAY)" || .venv-test/bin/python tools/make_weights.py everyday "$(EVERYDAY)" $(if $(BOXES),--boxes "$(BOXES)") $(FLAGS)
	test -z "$(FLICKR8K)" || .venv-test/bin/python tools/make_weights.py flickr8k "$(FLICKR8K)" $(FLAGS)

clean:
	rm -rf .venv .venv-test .venv-docs .venv-scoring site demo build *.egg-info
