"""A cell on the CPU: compiled by g++, launched on fenced copies of its arrays.

compiler        compiles a cell: the rewriter's C++, g++, a shared library
launch, arena   binds the arguments, copies the arrays between fences, launches
faults          the error that a fault of a launch becomes
watched         the watch build: its findings, shown below the cell
code_checks     reads of unset variables, and functions of the host in a kernel
"""
