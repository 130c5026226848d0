"""Puzzles of lesson 07a: what a kernel asks of memory.

coalescing     a repair: who takes which numbers
transpose      rows on both sides, and a tile without bank conflicts in between
fusion         a repair: what one pass has, a second one need not read
quantise       float32 to int8 and back, with a scale for each row
"""
