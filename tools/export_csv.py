"""Tables of what a run has left: the name of `python -m maniple.export_csv` in a checkout."""

from maniple.export_csv import main

if __name__ == "__main__":
    main()
