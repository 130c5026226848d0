"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes.

show, turns               show() and latency(): a launch, and its picture
scene, touches, steps     what is drawn: the accesses as a table, a warp's order
svg, grid, threads        marks, and where cells and threads stand
access, layout            view="access": the whole, where it stands
panels, stacks            ... an array, several of them
touched, arrows           ... and what the sliders move
heat, lanes, timeline     the other views
streams                   what ran when on a GPU, a row for each stream
latency                   warps that take turns: a picture of
issue                     ... a model of one multiprocessor, which runs
instructions, statements  ... what a trace and its source say that warps issue
values                    arrays with what they hold
room                      where there is room for something else
foot, counts, faults      what stands below: numbers, and what went wrong
player                    sliders, as plain HTML
"""
