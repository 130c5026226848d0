"""What tensor cores lose, and what limits them: `python -m weft bench tensor`.

command  the rows
sums     how they add (sums.cu)
limits   power, the clock, waiting (limits.cu)
plot     charts of the rows
"""
