"""The matmul ladder compared with cuBLAS and PyTorch: `python -m weft bench matmul`.

command   the command line, and rows() and time_mine() for a lesson
race      plan the races; check, time or leave out their contenders
calls     the contenders
comparison  ratios to cuBLAS, and the rows in the form for pictures and README
plot, roofline  charts of the rows
readme    the tables in README.md, which weft.benchmarks.readme writes
"""
