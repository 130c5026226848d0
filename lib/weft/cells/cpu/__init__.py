"""A cell on the CPU: compiled by g++, launched on fenced copies of its arrays."""
