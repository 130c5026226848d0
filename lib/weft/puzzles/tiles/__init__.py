"""The puzzles of lesson 02: threads that fetch for one another.

shared, pooling, conv1d      each number is brought once, and read by neighbours
dot, prefix_sum, axis_sum    one sum of many numbers
matmul_nt, matmul_budget     tiles
argmax, softmax              what a row needs to know of itself
"""
