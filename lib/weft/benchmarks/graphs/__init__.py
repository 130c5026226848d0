"""Measure the time between kernels: `python -m weft bench graphs`.

command    the rows and timelines (graphs.cu, chain.cuh, overlap.cu; fusion.cu)
plot       charts of the rows
"""
