"""What `python -m weft COMMAND` and %%cuda run; each has add_arguments() and main()."""
