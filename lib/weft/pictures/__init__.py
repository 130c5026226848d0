"""Pictures of a launch as SVG: who touches what, how often, when, and which lanes."""
