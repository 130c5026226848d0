"""Puzzles of lesson 07a: how a kernel accesses memory.

coalescing     a repair: which thread takes which numbers
transpose      rows on both sides, and a tile without bank conflicts in between
fusion         a repair: a second pass need not read what the first one had
quantise       float32 to int8 and back, with a scale for each row
"""
