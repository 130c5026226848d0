"""The commands of `python -m weft COMMAND`, each with add_arguments() and main().

environment  prepares Python; it is a script that needs only python3
doctor       reports the machine's equipment, and what is missing
check        compares every rung with float64
bench        times an op's rungs and PyTorch's, or runs a benchmark
mnist        trains the CNN, alone or against PyTorch
puzzles      lists the puzzles, and checks a file that solves one
magic        defines %%cuda and %%cuda_header
"""
