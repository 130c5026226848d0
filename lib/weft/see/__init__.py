"""See what a kernel does.

inspect        one launch under the watch build: faults and costs, line by line
machine_code/  PTX, SASS, occupancy, Nsight Compute
pictures/      drawings of launches: show(), latency()
traces/        what ran, and when: timeline(), torch_kernels(), NVTX
figures/       drawings of arrays, warps, bits, and of two texts side by side
"""
