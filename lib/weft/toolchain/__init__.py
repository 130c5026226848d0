"""The compilers, and the libraries that they build.

build          compiles kernels/ to lib/libweft_*.so, one library per op and target
tools          finds nvcc, g++ and disassemblers, and runs them
keys           computes cache keys: hashes of the files that determine a result
native         calls the compiled kernels through cffi
vendor         calls NVIDIA's libraries, or their versions for the CPU
launch_config  verifies the [grid, block] of a launch
"""
