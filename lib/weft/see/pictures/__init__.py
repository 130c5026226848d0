"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes.

show                 show(): a launch, and its picture
touches, scene       a launch's accesses as a table; threads, and the part to draw
svg, grid            marks, sliders, and the positions of cells
access, layout       view="access": arrays, threads, and what the sliders move
panels, arrows       ... one array or several; arrows between them
heat, lanes          the other views; lanes also has the timeline
streams              what ran when on a GPU, a row for each stream
latency              latency(): warps that take turns, and their picture
issue, instructions  ... a model of one multiprocessor; what its warps issue
values               arrays with the values they hold
foot                 the part below a picture: findings, counts, legend
"""
