"""Parse CUDA C, and translate it to C++.

scanner      which characters are code, and which brackets match
signature    the kernels of a source: names, parameters, templates
diagnostics  compilers' messages, on the reader's own lines, with a hint
rewriter/    CUDA C to C++ for the CPU, line for line
"""
