"""Tools that show the work of a kernel.

watched_runs   one launch under the watch build: faults and costs, line by line
machine_code/  PTX, SASS, occupancy, Nsight Compute
pictures/      drawings of launches: show(), latency()
view           figures, images, arrays with their values, texts side by side
sketches       small drawings of warps, bits and the glossary's ideas
timeline       the work on each stream over time: timeline(), nvtx_range()
torch_kernels  the kernels that PyTorch ran; kernel_names explains their names
"""
