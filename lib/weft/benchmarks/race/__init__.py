"""Training raced against PyTorch, and the charts of that race.

command     python -m weft bench mnist: batches and precisions
race        one heat: a precision and a batch, ours and PyTorch's side by side
row         what a row measures of one contender
milestones  wall clocks: an epoch, the time to 99 %, five seeds, a cold start
warm        compiles PyTorch's twins ahead of the race, one process each
work        the multiplications and bytes of a step
limits      what the machine can do, and what binds each section of a step
inside      the arrays between the kernels of a fused step, as pictures
plot, plot_batches, plot_ladder, plot_roofline, plot_sections  the charts
race_marks  which rows the charts of the race show, and their captions
"""
