"""Drawings that need no launch.

view      figures as SVG, images, arrays as squares with their values
beside    two texts side by side, line by line
sketches  ideas of the glossary, a warp's request, the bits of a number
"""
