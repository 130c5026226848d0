"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes.

scene, touches, steps     what is drawn: the accesses as a table, a warp's order
svg, grid, threads        marks, and where cells and threads stand
access, layout, panels    view="access": the whole, where it stands, arrays
touched                   ... and what the sliders move
heat, lanes, timeline     the other views
foot, counts, faults      what stands below: numbers, and what went wrong
player                    sliders, as plain HTML
"""
