"""The errors and the limits of tensor cores: `python -m weft bench tensor`.

command  the rows: how they add (sums.cu); power, the clock, waiting
plot     charts of the rows
"""
