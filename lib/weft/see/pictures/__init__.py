"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes.

show                 show(): a launch, and its picture
touches, scene       the accesses of a launch as a table; threads, and what is drawn
svg, grid            marks, sliders, and where cells are
access, layout       view="access": arrays, threads, and what the sliders move
panels, arrows       ... one array or several; arrows between them
heat, lanes          the other views; lanes has the timeline, too
streams              what ran when on a GPU, a row for each stream
latency              latency(): warps that take turns, and their picture
issue, instructions  ... a model of one multiprocessor; what its warps issue
values               arrays with what they hold
foot                 what is below a picture: findings, counts, legend
"""
