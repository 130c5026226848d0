"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes.

scene, touches, steps     what is drawn: the accesses as a table, a warp's order
svg, grid, threads        marks, and where cells and threads stand
access, panels, touched   view="access": where all stands, arrays, what moves
heat, lanes, timeline     the other views
foot, counts, faults      what stands below: numbers, and what went wrong
player                    sliders, as plain HTML
"""
