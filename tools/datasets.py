"""Cuts, joins and converts data sets of demonstrations: the name of `python -m maniple.datasets` in a checkout."""

from maniple.datasets import main

if __name__ == "__main__":
    main()
