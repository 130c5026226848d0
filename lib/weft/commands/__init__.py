"""What `python -m weft COMMAND` and %%cuda run; each has add_arguments() and main().

environment  makes Python ready; a script that needs nothing but python3
doctor       what this machine has and runs, and what is missing
check        every rung against float64
bench        an op's rungs beside PyTorch's, or a benchmark
mnist        trains the CNN, alone or against PyTorch
puzzles      lists the puzzles, and checks a file that solves one
magic        %%cuda and %%cuda_header
"""
