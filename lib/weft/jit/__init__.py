"""CUDA C from a string to a Python callable, on the GPU and on the CPU."""
