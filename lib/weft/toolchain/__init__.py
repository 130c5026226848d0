"""Compilers, and the libraries that they build.

build         compiles kernels/ to lib/libweft_*.so, one library per op and target
tools         finds nvcc, g++ and disassemblers, and runs them
keys          the cache keys: hashes of the files that decide a result
native        the compiled kernels, callable through cffi
launch_config  the [grid, block] of a launch
"""
