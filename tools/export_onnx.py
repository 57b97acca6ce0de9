"""The policy of a training as ONNX: the name of `python -m maniple.export` in a checkout."""

from maniple.export import main

if __name__ == "__main__":
    main()
