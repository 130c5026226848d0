"""Whole CUDA programs on the CPU: `weft run` and `weft inspect`.

program   builds an executable from .cu files, with nvcc's messages, and caches it
run       implements python -m weft run
inspect   implements python -m weft inspect, which uses the watch build
wheel     finds the functions that python -m weft package packs; builds its libraries
"""
