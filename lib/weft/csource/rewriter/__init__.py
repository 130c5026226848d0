"""Translate CUDA C to C++ for the CPU, line for line: libraries, cells, programs.

rewrite      turns CUDA's extensions into C++ on top of kernels/simt
shared       __shared__ declarations, and warp lanes that run in lockstep
preprocess   a program with its headers as one text, and the reader's columns
unsupported  refuses features that a CPU does not have
"""
