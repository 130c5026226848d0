"""What makes a notebook.

magic      %%cuda and %%cuda_header
lessons    the lessons from their sources: `make notebooks`
exercises  what stands below an exercise: its check
stubs      exercises and puzzles without their answers
ipython    the IPython that runs us
"""
