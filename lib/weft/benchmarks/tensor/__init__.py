"""The errors and the limits of tensor cores: `python -m weft bench tensor`.

command  the rows: errors of sums (sums.cu), power, clock frequency, stalls
plot     charts of the rows
"""
