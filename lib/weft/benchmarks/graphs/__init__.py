"""Where the time between kernels goes: `python -m weft bench graphs`.

command    the rows (graphs.cu, chain.cuh, overlap.cu; fusion.cu)
timelines  what a GPU ran, and when
plot       charts of the rows
"""
