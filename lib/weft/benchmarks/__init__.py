"""A benchmark a module, and the charts of their rows: `python -m weft bench WHAT`.

ops                    an op's rungs beside PyTorch's
matmul/, tensor/, graphs/, race/, transpose, torch_kernels  what a GPU reaches
sectors, streams       what a count of sectors leaves out; copies on several streams
bodies, launch, edit   one body by every runner; a launch; from an edit to its result
sim, simt, check       what running kernels on a CPU costs
counters               is the count right; how far Nsight Compute may differ from it
sanitizer              NVIDIA's compute-sanitizer over every rung
plot_bodies, plot_transpose  charts
readme, sentences      blocks of results for README and docs/results.md
phrases                numbers, times and devices in their sentences
"""
