"""CUDA C -> C++ for the CPU, line for line: for libraries, cells, whole programs.

rewrite      what is not C++ becomes C++ on top of kernels/simt
shared       __shared__ declarations, and lanes that go on in step
preprocess   a program with its headers as one text, and back to the reader's column
unsupported  what a CPU cannot do
"""
