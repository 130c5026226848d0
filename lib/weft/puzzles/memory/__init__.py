"""Puzzles of lesson 07a: what a kernel asks of memory."""
