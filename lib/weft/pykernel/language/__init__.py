"""A kernel as a Python function. Its body uses the names of weft.cuda.

kernel     a kernel and what its launch needs
arguments  rejects arguments that no runner takes, in the same words for all
spelling   suggests the name that was probably meant
"""
