"""A page of a run on which its robots move: the name of `python -m maniple.replay` in a checkout."""

from maniple.replay import main

if __name__ == "__main__":
    main()
