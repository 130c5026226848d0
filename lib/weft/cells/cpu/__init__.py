"""A cell on the CPU: compiled by g++, launched on fenced copies of its arrays.

compiler        compiles a cell: the rewriter's C++, g++, a shared library
launcher        the C++ that is appended to a cell: one C entry per kernel
host_functions  functions of the host that no kernel may call
launch, arena   binds the arguments, copies the arrays between fences, launches
faults          the error that a fault of a launch becomes
watched, unset  the watch build: what it finds, and reads of unset variables
shown           shows findings below the cell
"""
