"""Parse CUDA C, and translate it to C++.

scanner      finds the characters that are code, and matching brackets
signature    reads the kernels of a source: names, parameters, templates
diagnostics  moves compiler messages to the reader's own lines, and adds a hint
rewriter/    rewrites CUDA C as C++ for the CPU, line by line
"""
