"""The course: its notebooks, and what they call.

maker       writes the notebooks from their sources: `make notebooks`
course      the tables of lessons, and the cells that `make notebooks` adds
progress    what the reader has done of the course
first_cell  the first cell of each notebook, and what it runs on Colab and Kaggle
glossary    links to the glossary's entries, and what such a link shows
exercises   the check below an exercise
race_rows   lesson 15b: measured training steps, read, printed and drawn
products    matrices to multiply, and whether a product is right
ladder/     the steps from rung to rung of matmul
widgets/    live pictures: paint, a canvas, a guess beside its answer
"""
