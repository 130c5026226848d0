"""The matmul ladder compared with cuBLAS and PyTorch: `python -m weft bench matmul`.

command   the command line, and rows() and time_mine() for a lesson
race      plans the races; checks, times or leaves out their contenders
calls     the contenders
comparison  ratios to cuBLAS, and rows selected for pictures and tables; the tables for
            docs/results.md, which weft.benchmarks.readme writes
plot, roofline  charts of the rows
"""
