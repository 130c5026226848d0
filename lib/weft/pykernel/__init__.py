"""Kernels written as Python functions, and their runners.

language   what a kernel is; weft.cuda has the names of its language
bodies/    the lab's kernels in Python
sim/       runs kernels thread by thread, and finds faults
numba/     compiles kernels with Numba, or runs them on its simulator
to_cuda/   translates kernels to readable CUDA C; cuda_c runs that
"""
