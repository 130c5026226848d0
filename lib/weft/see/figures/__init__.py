"""How things look, and figures of what no launch is needed for.

style     one look for every chart
view      figures as SVG, arrays as squares with their values
images    images side by side
highlight, beside  a program's text; two of them, line by line
words     numbers as they stand in a sentence
warps     a request of a warp: its sectors, its turns at the banks
tensors   the bits of a number; which lane has which element
sketches  small drawings for the glossary
"""
