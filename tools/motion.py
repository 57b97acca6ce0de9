"""Reference motions in mjlab's format: the name of `python -m maniple.motion` in a checkout."""

from maniple.motion import main

if __name__ == "__main__":
    main()
