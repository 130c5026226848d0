"""The matmul ladder beside cuBLAS and PyTorch: `python -m weft bench matmul`.

command   the races, and their rows
plan      which races there are
calls     who takes part
goals     what has to be reached
plot, roofline  pictures of the rows
readme    the table in README.md
"""
