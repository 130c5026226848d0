"""Whole CUDA programs on the CPU: `weft run` and `weft inspect`.

program   builds an executable from .cu files, and caches it
messages  rewrites g++'s messages as nvcc would word them
run       python -m weft run
inspect   python -m weft inspect: the same, under the watch build
"""
