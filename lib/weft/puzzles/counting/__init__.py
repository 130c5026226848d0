"""The puzzles of lesson 02b: products of matrices that fetch each number seldom.

matmul_nt        tiles
matmul_budget    tiles, and two results a thread
"""
