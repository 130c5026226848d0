"""The main job: a CNN that trains on MNIST with our own kernels.

data.py     the images and labels, verified; an epoch's order
trainer.py  what all trainers have in common
cnn.py      Cnn: the trainer of kernels/mnist/ as a Python object
python_cnn.py, python_step.py  PythonCnn: the same with the Python bodies
rungs.py    which of them a rung's name stands for
weights.py  the parameters by name, their first values, their file
numpy_cnn.py  the CNN in NumPy, a function for each layer, and its gradient
twin.py     the same model in PyTorch
precisions.py  the precisions in which PyTorch trains it
exact.py    a step in float64, and how far another one is from it
config.py   what a run is asked for
train.py    run(Config(...)): train, time, compare
plot.py     the pictures of a run
race.py     one heat of the race over batches and precisions; row.py  what it measures
milestones.py  an epoch, 99 %, five seeds, a cold start
warm.py     PyTorch's twins compiled side by side, ahead of the race
work.py     flops and bytes of a step; roofs.py  what the machine can do
limits.py   what binds each section of a step
plot_ladder.py, plot_batches.py, plot_roofline.py, plot_sections.py  the pictures of the
race; race_marks.py  what they share
inside.py   the arrays between the kernels of a step as pictures
marks.py    when the sections of a step end
cli.py      python -m weft mnist
"""

from ..base.lazy import make_lazy

# A training with Cnn imports neither PyTorch nor what draws.
__all__ = make_lazy(
    __name__,
    {
        "cnn": ("Cnn",),
        "config": ("Config",),
        "data": ("DataError", "Split", "epoch_order", "load"),
        "exact": ("exact_step",),
        "precisions": ("precision",),
        "python_cnn": ("PythonCnn",),
        "rungs": ("rungs", "trainer"),
        "train": ("Result", "run"),
        "twin": ("Twin", "TwinTrainer"),
        "weights": ("initial_weights",),
    },
)
