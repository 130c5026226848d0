"""Cells on the CPU: compiled by g++, launched on fenced copies of their arrays.

compiler        compiles a cell: the rewriter's C++, g++, a shared library
launch          binds the arguments, and launches the kernel
arena           copies the arrays between fences, also those reached through structs
faults          turns the fault of a launch into a Python exception; finds reads of
                unset variables, and host functions in kernels
watched         the watch build: its findings, shown below the cell
"""
