"""The matmul ladder beside cuBLAS and PyTorch: `python -m weft bench matmul`.

command   the command line, and rows() and mine() for a lesson
race      which races there are; in each, who is checked, timed, left out
calls     who takes part
goals     what has to be reached
series    the rows as pictures and README take them
plot, roofline  pictures of them
readme    the tables in README.md, which weft.benchmarks.readme writes
"""
