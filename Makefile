# make          environment and libraries        make lab        the notebooks
# make mnist    train, compare with PyTorch      make test       the suite
# make format   ruff and clang-format            make test-slow  what takes minutes
# make fuzz     random input by the ten thousand, half an hour
# make mutants  published answers with a slip each, all to be refused
# make baseline   what must not change when code moves: recorded, compared
# make notebooks  the lessons, from their sources in notebooks/sources
#
# PYTHON=...    another interpreter, whose packages are kept
# PIP_ARGS=...  for pip, e.g. --index-url https://download.pytorch.org/whl/cpu
#               --extra-index-url https://pypi.org/simple: torch without CUDA
# ARGS=...      for the program: make mnist ARGS="--epochs 1", make test ARGS="-k conv"

# Makes the environment ready, then runs python in it.
RUN := $(or $(PYTHON),python3) lib/weft/commands/environment.py
export PYTHON PIP_ARGS

all:
	@$(RUN) -m weft build

env:
	@$(RUN)

mnist:
	@$(RUN) -m weft mnist --compare --plot mnist.svg --json mnist.json $(ARGS)

lab:
	@$(RUN) -m jupyterlab --notebook-dir . notebooks/00_start_here.ipynb $(ARGS)

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

format:
	@$(RUN) -m ruff format lib tests utils.py
	@$(RUN) -m ruff check --fix lib tests utils.py
	@$(RUN) -c 'import clang_format; clang_format.clang_format()' -i $$(git ls-files 'kernels/*.h' '*.c' '*.cu' '*.cuh' '*.cpp')

clean:
	rm -rf lib/libweft_*.so build *.egg-info mnist.svg mnist.json

.PHONY: all env mnist lab test test-slow fuzz mutants baseline notebooks format clean
