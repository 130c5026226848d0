"""Pictures of a launch as SVG: which thread touches what, how often, and when.

show                    show(): a launch, and its picture; view="access"
touches, scene          a launch's accesses as a table; threads, and the part to draw
svg, grid               marks, sliders, and the positions of cells
access_layout           ... arrays, threads, and the parts that sliders move
panels, arrows          ... panels of one or several arrays; arrows between them
heat, lanes             the other views; lanes also contains the timeline
latency                 latency(): warps that take turns, and their picture
warp_steps              ... the instructions of its warps
values                  arrays with their values; keys over the passes of a sort
warps                   loads of several widths; lanes at one bin; warps that take turns
rows                    passes over a row, and the threads that read it
merge_rounds            rounds in which places take numbers from others: trees, scans
scans                   where kept numbers go; scans of a block, and of waiting blocks
findings                findings on a picture, and below it with counts and legend
"""
