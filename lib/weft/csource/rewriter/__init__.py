"""CUDA C -> C++ for the CPU, line for line: for libraries, cells, whole programs.

rewrite           what is not C++, on top of kernels/simt
shared, lockstep  ... __shared__; lanes that go on in step
text, preprocess  CUDA C as text; with its headers in it
unsupported       what a CPU cannot do
program, run      whole programs; python -m weft run
messages          what g++ says, as nvcc would say it
columns, symbols  back to the reader's line: from a column, from an address
"""
