"""Kernels written as Python functions, and their runners.

language   the definition of a kernel; weft.cuda has the names of its language
trees      parts of a kernel's syntax tree, and the syntax that no runner translates
bodies     the lab's kernels in Python: the CNN's layers and the first lessons
bandwidth  the same for ops that memory limits, such as copy, softmax, scan and topk
sim/       runs kernels thread by thread, and finds faults
numba/     compiles kernels with Numba, or runs them on its simulator
to_cuda/   translates kernels to readable CUDA C; cuda_c runs the result
"""
