"""The puzzles of lesson 01b: many blocks.

blocks, blocks2d    more numbers than one block has threads
grid_stride         fewer threads than numbers
image_filter_numpy, image_filter
                    a picture: first a NumPy function, then the kernel
"""
