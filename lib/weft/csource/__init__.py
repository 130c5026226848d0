"""Parse CUDA C, and translate it to C++.

scanner      finds the characters that are code, and matching brackets
signature    reads the kernels of a source: names, parameters, templates
diagnostics  moves compiler messages to the reader's own lines, and adds a hint
rewrite      rewrites CUDA C as C++ on top of kernels/simt, line by line
shared       __shared__ declarations, and warp lanes that run in lockstep
preprocess   a program with its headers as one text, and the reader's columns
unsupported  refuses features that a CPU does not have
"""
