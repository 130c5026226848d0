"""One benchmark per module, and the charts of their rows: `python -m weft bench WHAT`.

ops                    an op's rungs beside PyTorch's
matmul/, tensor/, graphs/, race/, transpose, torch_kernels  the speed that a GPU reaches
sectors, streams       effects that sector counts leave out; copies on several streams
bodies, launch, edit   one body by every runner; a launch; from an edit to its result
sim, simt, check       the cost of running kernels on a CPU
counters               our counts beside Nsight Compute's, and how far they may differ
sanitizer              NVIDIA's compute-sanitizer over every rung
plot_bodies, plot_transpose  charts; the size from which on a GPU is ahead
readme, sentences      blocks of results for README and docs/results.md
phrases                numbers, times and devices in their sentences
"""
