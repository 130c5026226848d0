"""Puzzles of lesson 07b: warps, and blocks that work on one result.

warp_sum                         lanes that exchange numbers
histogram, histogram_private     many threads count in one place, or per block
scan_blocks, scan_add            running sums over many blocks, in two launches
compact                          keep some numbers, in order
"""
