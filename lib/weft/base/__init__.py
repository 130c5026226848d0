"""What every other folder may use; it imports none of them.

paths       where the checkout, the kernels and the package are
device      the processor, GPUs by name, and what the CUDA driver reports of them
arrays      arrays between guard zones, poison, comparison
store       files: the user's cache, what a user would miss, writes that are whole
style       colours, size and axes of every chart
text        values and numbers in messages and sentences
errors      the errors that a reader may catch
lazy        packages that import a public name with its first use
tracebacks  errors that end at the reader's line, in the IPython that runs us
"""
