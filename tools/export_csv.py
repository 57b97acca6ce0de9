"""Tables of the results of a run: the name of `python -m maniple.export_csv` in a checkout."""

from maniple.export_csv import main

if __name__ == "__main__":
    main()
