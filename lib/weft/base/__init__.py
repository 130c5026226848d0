"""Modules that every other folder may use; they import from no other folder.

paths       paths of the checkout, the kernels and the package
device      the processor, GPUs by name, and facts from the CUDA driver
arrays      arrays between guard zones, poison, comparison
store       files: the user's cache, records worth keeping, atomic writes
style       colours, size and axes of every chart
text        values and numbers in messages and sentences
errors      the errors that a reader may catch
lazy        packages that import a public name on first use
tracebacks  errors that end at the reader's line, in the running IPython
"""
