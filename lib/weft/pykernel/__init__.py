"""Kernels written as Python functions, and their runners.

language   the kernel as an object, and its errors; weft.cuda lists its language
trees      parts of a kernel's syntax tree, and syntax that no runner translates
bodies     the lab's kernels in Python: the CNN's layers and the first lessons
bandwidth  kernels of memory-bound ops, such as copy, softmax and scan
orders     kernels of sort and topk
sim/       runs kernels thread by thread, and finds faults
numba/     compiles kernels with Numba, or runs them on its simulator
to_cuda/   translates kernels to readable CUDA C; cuda_c runs the result
"""
