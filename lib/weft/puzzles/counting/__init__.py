"""The puzzles of lesson 02b: the answer may be right and still cost too much.

divergence       warps whose lanes take one branch
matmul_nt        a product in tiles
matmul_budget    tiles, and two results per thread
"""
