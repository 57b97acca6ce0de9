"""Facts about the process of Python that the program needs: its file, its packages, and its cores."""

import numbers
import os
import shutil
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


ROOT = Path(__file__).resolve().parents[2]  # of a checkout, or PREFIX/share/maniple of an installation


def program(wanted: str) -> str:
    """The program: what MANIPLE_PROGRAM names, as for job scripts; else that of the build folder of a checkout, of an installation,
    or in PATH. FileNotFoundError if there is none.

    `wanted`: what it is needed for, for the message.
    """
    named = os.environ.get("MANIPLE_PROGRAM", "")
    build = Path(os.environ.get("MANIPLE_BUILD_DIR", ROOT / "build")) / "maniple"
    for place in (named,) if named else (build, ROOT.parents[1] / "bin" / "maniple", "maniple"):
        found = shutil.which(place)  # (of a path with folders, itself)
        if found is not None:
            return found
    if named:
        raise FileNotFoundError(f"MANIPLE_PROGRAM: found '{named}', which is no program on {socket.gethostname()}")
    raise FileNotFoundError(f"{wanted} by the program maniple, which is neither {build} nor in PATH: MANIPLE_PROGRAM names it; a rollout that "
                            "recorded qpos is shown without it")


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


def threads_of(given_threads: int | None) -> int:
    """Threads that step a batch: those that the user names; else OMP_NUM_THREADS, or one for each core that this process may
    use. Raises ValueError for less than one."""
    if given_threads is not None:
        if not isinstance(given_threads, numbers.Integral) or given_threads < 1:
            raise ValueError(f"threads: found {given_threads!r}; allowed: an integer of at least 1")
        return int(given_threads)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if given.isdigit() and int(given) > 0 else len(os.sched_getaffinity(0))


def warn_of_dropped(core: Any, told: bool, stacklevel: int) -> bool:
    """Warns, once, where a batch has left out contacts; `told`: it was warned of before. Returns whether it was by now."""
    if not told and core.dropped_contacts:
        warnings.warn(f"contacts beyond the {core.max_contacts} that an environment has room for are left out (simulation.max_contacts); "
                      "dropped_contacts counts them", stacklevel=stacklevel)
        return True
    return told
