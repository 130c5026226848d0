"""The commands of `python -m weft COMMAND`, each with add_arguments() and main().

environment  makes Python ready; a script that needs only python3
doctor       reports what this machine has and runs, and what is missing
check        compares every rung with float64
bench        times an op's rungs beside PyTorch's, or runs a benchmark
mnist        trains the CNN, alone or against PyTorch
puzzles      lists the puzzles, and checks a file that solves one
magic        %%cuda and %%cuda_header
"""
