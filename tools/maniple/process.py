"""What a process of Python has for the program: its packages, and its cores."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def packages_of_this_python() -> Iterator[None]:
    """Models of installed packages (package:...) are those of this interpreter, where no environment is active."""
    added = "VIRTUAL_ENV" not in os.environ and sys.prefix != sys.base_prefix
    if added:
        os.environ["VIRTUAL_ENV"] = sys.prefix
    try:
        yield
    finally:
        if added:
            del os.environ["VIRTUAL_ENV"]


def usable_threads() -> int:
    """Threads that step a batch: OMP_NUM_THREADS, or one for each core that this process may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else len(os.sched_getaffinity(0))
