# make            prepare Python and build the libraries
# make lab        open the notebooks
# make mnist      train the CNN and compare it with PyTorch
# make test       run the tests that take seconds
# make test-slow  run the tests that take minutes
# make format     run ruff and clang-format
# make fuzz       run tens of thousands of random inputs: half an hour
# make mutants    add mistakes to the published answers; the checks must refuse them
# make baseline   record or compare the results that a refactoring must not change
# make notebooks  write the lessons from their sources
# make site       build the website in site/, from executed lessons
# make slides     build slides of the lessons in build/slides/; LESSON=02: of those
#
# PYTHON=...    another interpreter, which keeps its packages
# PIP_ARGS=...  options for pip, e.g. --index-url https://download.pytorch.org/whl/cpu
#               --extra-index-url https://pypi.org/simple for a torch without CUDA
# ARGS=...      options for the program, e.g. make mnist ARGS="--epochs 1" or
#               make test ARGS="-k conv"

# RUN prepares the environment, then runs python in it.
RUN := $(or $(PYTHON),python3) lib/weft/commands/environment.py
export PYTHON PIP_ARGS

all:
	@$(RUN) -m weft build

env:
	@$(RUN)

mnist:
	@$(RUN) -m weft mnist --compare --plot mnist.svg --json mnist.json $(ARGS)

# The runtime is built here, so that the first %%cuda cell does not wait for it. If this
# fails, the cell reports why.
lab:
	-@$(RUN) -m weft build --runtime
	@$(RUN) -m jupyterlab --notebook-dir . notebooks/00_start_here.ipynb $(ARGS)

# The tests start hundreds of processes, which share the modules compiled by Python.
test test-slow: export PYTHONDONTWRITEBYTECODE =

test: all
	@$(RUN) -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-slow: all
	@$(RUN) -m pytest -n auto --dist worksteal -m slow $(ARGS)

fuzz: all
	@$(RUN) tests/fuzz $(ARGS)

mutants: all
	@$(RUN) tests/mutants $(ARGS)

baseline: all
	@$(RUN) tests/baseline $(ARGS)

notebooks:
	@$(RUN) -m weft.lessons.maker $(ARGS)

# What the site needs, the lessons do not: see the file of requirements.
site: all
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r docs/site/requirements.txt
	@$(RUN) docs/site/make_site.py $(ARGS)

slides: all
	@$(RUN) -m pip install --quiet --disable-pip-version-check -r docs/slides/requirements.txt
	@$(RUN) docs/slides/make_slides.py $(LESSON) $(ARGS)

format:
	@$(RUN) -m ruff format lib tests kernels docs/site docs/slides utils.py
	@$(RUN) -m ruff check --fix lib tests kernels docs/site docs/slides utils.py
	@$(RUN) -c 'import clang_format; clang_format.clang_format()' -i $$(git ls-files 'kernels/*.h' '*.c' '*.cu' '*.cuh' '*.cpp')

clean:
	rm -rf lib/libweft_*.so build site *.egg-info mnist.svg mnist.json

.PHONY: all env mnist lab test test-slow fuzz mutants baseline notebooks site slides format clean
