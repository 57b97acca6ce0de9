"""Learning curves of a run: the name of `python -m maniple.plot` in a checkout."""

from maniple.plot import main

if __name__ == "__main__":
    main()
