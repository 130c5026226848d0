"""A kernel as a Python function; the names it is written in are those of weft.cuda.

kernel     what a launch needs of it
arguments  what no runner takes, in the same words
spelling   what was probably meant by a name that is not there
"""
