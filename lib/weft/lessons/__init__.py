"""The course: its notebooks, and the functions that they call.

maker       writes the notebooks from their sources: `make notebooks`
course      the tables of lessons, the cells that `make notebooks` adds, and links to
            the glossary's entries
progress    the reader's progress through the course
first_cell  the first cell of each notebook, which fetches the lab on Colab and Kaggle
exercises   the check below an exercise, and matrices to multiply
grading     grades a submitted lesson, writes a lesson as an assignment for nbgrader,
            and lists the names that a cell assigns and uses
race_rows   reads, prints and draws measured training steps (lesson 15b)
bandwidth   compares bytes and times with the floor, and draws sums (09a to 09d)
bridges     pictures and a table of bridges to PyTorch, and a small network (13a)
libraries   pictures, calls and tables of NVIDIA's libraries (12)
micrograd   pictures of graphs and tapes, and a table of gradients (10b)
shipping    a wheel, an environment without Weft, and pictures of both (13b)
workers     runs of several workers, and pictures of their steps (16a)
ladder/     the steps from rung to rung of matmul
widgets/    live pictures: paint, a canvas, a guess beside its answer
"""
