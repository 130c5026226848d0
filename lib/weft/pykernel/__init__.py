"""A kernel written as a Python function, and everything that runs it.

language   what a kernel is; weft.cuda has the names it is written in
bodies/    the lab's kernels in Python
sim/       runs them thread by thread, and finds faults
numba/     compiles them with Numba, or runs them on its simulator
to_cuda/   translates them to readable CUDA C; cuda_c runs that
"""
