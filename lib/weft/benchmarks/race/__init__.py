"""The training race against PyTorch, and its charts.

command     python -m weft bench mnist: batches and precisions
race        one heat: our rungs and PyTorch at one precision and batch
milestones  wall-clock times: an epoch, the time to 99 %, five seeds, a cold start
work        a step's multiplications and bytes, and the limit of each section
inside      the arrays between the kernels of a fused step, as pictures; the kernels of
            PyTorch's step
plot, plot_batches, plot_ladder  the charts
"""
