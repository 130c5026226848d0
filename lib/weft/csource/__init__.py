"""The one reader of CUDA C: what is in a source, and its translation to C++.

scanner      which characters are code, and which brackets belong together
signature    the kernels of a source: names, parameters, templates
diagnostics  compilers' messages, on the reader's own lines, with a hint
rewriter/    CUDA C to C++ for the CPU, line for line
"""
