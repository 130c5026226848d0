"""What every other folder may use; it imports none of them.

paths       where the checkout, the kernels and the package are
device      devices by name, and what the CUDA driver reports of them
arrays      arrays between guard zones, poison, comparison
cache       the user's cache folder; kept has what a user would miss
whole       files that are complete or absent
style       colours and the look of every chart
text        values and numbers in messages and sentences
errors      the errors that a reader may catch
host        the processor, and the CUDA driver
lazy        packages that import a public name with its first use
tracebacks  errors that end at the reader's line
ipython     the IPython that runs this process
"""
