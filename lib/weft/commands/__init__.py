"""The commands of `python -m weft COMMAND`, each with add_arguments() and main().

environment  prepares Python; it is a script that needs only python3
doctor       lists hardware and tools, and fixes for missing ones
check        compares every rung with float64, or runs compute-sanitizer over it
bench        times the rungs of an op and PyTorch's op, or runs a benchmark
mnist        trains the CNN, alone or against PyTorch
package      packs kernels into a wheel
puzzles      lists the puzzles, shows one, or checks a solution
grade        grades a submitted notebook, and runs its answers in a process
class_grades shows the grades of a class: `weft class`
magic        defines %%cuda and %%cuda_header
"""
