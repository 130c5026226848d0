"""A kernel as a Python function. Its body uses the names of weft.cuda.

kernel     a kernel and what its launch needs
messages   what no runner takes: arguments, and names that were probably misspelt
"""
