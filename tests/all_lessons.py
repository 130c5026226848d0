"""Every lesson, read once: several test files need all of them at collection."""

from weft.puzzles.notebooks import list_lessons

LESSONS = list_lessons()
