"""Modules that every other folder may use; they import from no other folder.

paths       paths of the checkout, the kernels and the package
device      the processor, the cores that this process may use, GPUs by name, and
            facts from the CUDA driver
arrays      arrays between guard zones, poison, comparisons
store       files: the user's cache, permanent records, atomic writes
style       colours, size and axes of every chart
text        values and numbers in messages and sentences
errors      errors that a reader may catch, short tracebacks in IPython, and delayed
            Ctrl-C
progress    the line that shows long work
lazy        packages that import a public name on first use
"""
