"""Puzzles of lesson 07b: warps, and blocks that work on one thing.

warp_sum                         lanes that talk
histogram, histogram_private     many threads count in one place, or in their block's
scan_blocks, scan_add            running sums over many blocks, in two launches
compact                          keep some numbers, in order
"""
