"""Drawings that need no launch.

charts    the size, caption and axes of every chart of measured rows
view      figures as SVG, arrays as squares with their values
images    images side by side
beside    two texts side by side, line by line
warps     a request of a warp: its sectors, its turns at the banks
tensors   the bits of a number; which lane has which element
sketches  small drawings for the glossary
"""
