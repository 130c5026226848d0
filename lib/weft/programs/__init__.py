"""Whole CUDA programs on the CPU: `weft run` and `weft inspect`.

program   builds an executable from .cu files, with nvcc's messages, and caches it
run       python -m weft run
inspect   python -m weft inspect: the same, under the watch build
"""
