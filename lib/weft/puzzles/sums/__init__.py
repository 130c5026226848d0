"""The puzzles of lesson 02c: one result from many numbers.

dot, prefix_sum, axis_sum    sums
argmax, softmax              more than one pass over a row
"""
