"""Data sets of LeRobot as demonstrations: the name of `python -m maniple.from_lerobot` in a checkout."""

from maniple.from_lerobot import main

if __name__ == "__main__":
    main()
