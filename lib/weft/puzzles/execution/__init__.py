"""Puzzles of lesson 07b: warps, atomics, and blocks that work on one thing.

warps, room      launches of blocks of one warp, and of a fixed number of threads
"""
