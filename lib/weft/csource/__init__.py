"""Parse CUDA C, and translate it to C++.

scanner      finds the characters that are code, and matching brackets
signature    reads the kernels of a source: names, parameters, templates
diagnostics  moves compiler messages to the reader's own lines, and adds a hint
rewrite      rewrites CUDA C as C++ on top of kernels/simt, line by line
shared       rewrites __shared__ declarations, and warps that run in lockstep
preprocess   joins a program and its headers; maps columns back to the reader's
unsupported  refuses features that a CPU does not have
"""
