"""The puzzles of lesson 01a: which thread does what, in one block.

map, zip, guards    one dimension
map2d, broadcast    rows and columns
"""
