"""The puzzles of lesson 02a: threads that fetch for one another.

shared, pooling, conv1d    a block loads each number once; other threads read it
"""
