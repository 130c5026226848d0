"""Training raced against PyTorch, and the charts of that race.

command     python -m weft bench mnist: batches and precisions
race        one heat: a precision and a batch, ours and PyTorch's side by side
milestones  wall clocks: an epoch, the time to 99 %, five seeds, a cold start
work        the multiplications and bytes of a step, and what binds each section
inside      the arrays between the kernels of a fused step, as pictures
plot, plot_batches, plot_ladder  the charts
"""
