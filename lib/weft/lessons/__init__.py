"""What makes a notebook.

magic      %%cuda and %%cuda_header
lessons    the lessons from their sources: `make notebooks`
course     which lessons there are, how long they take, what comes next
progress   what the reader has done of it
hosted     the first cell, and what it runs on Colab and Kaggle
glossary   links to its entries, and what such a link shows
exercises  what stands below an exercise: its check
stubs      exercises and puzzles without their answers
products   matrices to multiply, and whether a product is right
ipython    the IPython that runs us
"""
