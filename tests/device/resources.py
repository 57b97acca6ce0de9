"""Resources of the kernels of maniple_device_code on a GPU, compared with resources.txt: registers and stack after the
link, spills, instructions. Growth by over 5 % fails; a decrease by over 5 % is reported.

    python tests/device/resources.py build/tests/device            compares, and writes resources.txt there
    python tests/device/resources.py build/tests/device --write    makes that the table of the repository
    python tests/device/resources.py build/tests/device --known    ends with 0 where the table is of this very code
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

TABLE = Path(__file__).parent / "resources.txt"
REPOSITORY = Path(__file__).resolve().parents[2]
COLUMNS = ("registers", "stack", "spills", "instructions")
TOLERANCE = 0.05
# smaller differences are no growth: of registers, bytes, bytes, instructions
SLACK = {"registers": 8, "stack": 64, "spills": 64, "instructions": 100}
INSTRUCTION_BYTES = 16

HEADER = """\
# What the kernels take of an H100 (nvcc {nvcc}, sm_90; code {code}): registers, bytes of stack with all that they call, bytes of
# spills and instructions of their own. "all functions" has the most registers and stack of a kernel of the module, and
# the sums of spills and instructions over all functions, called ones too. Written by
#   .ci/gpu device_code --write
"""
# what stands in a kernel's symbol before the name that says what it runs
LAUNCHES = {"Kokkos", "Impl", "run_range", "run_bounded_range", "run_teams", "run_bounded_teams", "maniple", "for_each_item_by_team",
            "for_each_item", "for_each_pack", "for_tiles"}
TYPES = {"f": "float", "d": "double", "i": "int", "l": "long"}


def tokens(symbol):
    """Names, and letters of types and brackets, of a mangled symbol. (c++filt knows no lambdas within lambdas.)"""
    place = 0
    while place < len(symbol):
        skipped = re.compile(r"L[a-z]\d+E|[ST]\d*_|E\d*_").match(symbol, place)
        length = re.compile(r"\d+").match(symbol, place)
        if skipped:
            place = skipped.end()
        elif length:
            place = length.end() + int(length[0])
            yield symbol[length.end():place]
        else:
            yield symbol[place]
            place += 1


def short_name(symbol):
    """"Act<float, LaneDense>" of a kernel's symbol: the functor, or the function whose loop it is."""
    left = tokens(symbol.removeprefix("_Z"))
    for name in left:
        if len(name) == 1 or name in LAUNCHES or name.startswith(("_GLOBAL__N", "_INTERNAL_")):
            continue
        depth, arguments = 0, []
        for token in left:
            depth += {"I": 1, "N": 1, "E": -1}.get(token, 0)
            if depth == 0:
                break
            if depth == 1 and token in TYPES:
                arguments.append(TYPES[token])
            elif len(token) > 1 and token not in LAUNCHES and not token.startswith("_INTERNAL_"):
                arguments.append(token)
        return name + (f"<{', '.join(arguments)}>" if arguments else "")
    return symbol


def linked_resources(text):
    """Registers and stack of each kernel, from what nvlink says."""
    pattern = r"Function properties for '(\w+)':\n.*?used (\d+) registers,.*? (\d+) stack"
    return {name: {"registers": int(registers), "stack": int(stack)}
            for name, registers, stack in re.findall(pattern, text)}


def spills(text):
    """Bytes that each function stores or loads for want of registers, from what ptxas says."""
    pattern = r"Function properties for (\S+)\n.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
    return {name: int(stores) + int(loads) for name, stores, loads in re.findall(pattern, text)}


def instructions(text):
    """Instructions of each function, from the sections that readelf lists."""
    return {name: int(size, 16) // INSTRUCTION_BYTES
            for name, size in re.findall(r"\]\s+\.text\.(\S+)\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", text)}


def output_of(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stderr}")
    return result.stdout + result.stderr


def resources_of(module):
    """One row for each kernel of a module, and one for the sums of all functions."""
    log = module.with_suffix(".log").read_text()
    if "warning" in log:
        sys.exit(f"{module}: nvcc warns:\n{log}")
    nvlink = shutil.which("nvlink") or "/usr/local/cuda/bin/nvlink"
    kernels = linked_resources(output_of(nvlink, "-v", "-arch=sm_90", str(module), "-o", str(module.with_suffix(".linked"))))
    spilled, sizes = spills(log), instructions(output_of("readelf", "-SW", str(module)))
    rows = {}
    for symbol, row in sorted(kernels.items(), key=lambda item: (short_name(item[0]), item[0])):
        name = key = f"{module.stem}: {short_name(symbol)}"
        number = 1
        while key in rows:
            number += 1
            key = f"{name} #{number}"
        rows[key] = {**row, "spills": spilled.get(symbol, 0), "instructions": sizes[symbol]}
    rows[f"{module.stem}: all functions"] = {"registers": max(row["registers"] for row in rows.values()),
                                   "stack": max(row["stack"] for row in rows.values()),
                                   "spills": sum(spilled.values()), "instructions": sum(sizes.values())}
    return rows


def as_text(rows, header):
    lines = ["".join(f"{row[column]:>13}" for column in COLUMNS) + f"  {name}" for name, row in rows.items()]
    return header + "#" + "".join(f"{column:>13}" for column in COLUMNS)[1:] + "  kernel\n" + "\n".join(lines) + "\n"


def from_text(text):
    rows = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            *numbers, name = line.split(None, len(COLUMNS))
            rows[name] = dict(zip(COLUMNS, map(int, numbers)))
    return rows


def compare(old, new):
    """What grew, appeared or is gone, which fails, and what is less than before."""
    faults, gains = [], []
    for name in new:
        if name not in old:
            faults.append(f"{name} is not in the table")
            continue
        for column in COLUMNS:
            before, now = old[name][column], new[name][column]
            if abs(now - before) > max(TOLERANCE * before, SLACK[column]):
                (faults if now > before else gains).append(f"{name}: {now} {column}, {before} in the table")
    faults += [f"{name} is in the table, but no longer compiled" for name in old if name not in new]
    return faults, gains


def code_digest(folder, repository=REPOSITORY):
    """Of the repository's files that the modules are compiled from, comments left out, and of how they are compiled."""
    files = {repository / "tests/device/CMakeLists.txt", repository / "CMakeLists.txt"}
    for listed in folder.glob("*.files"):
        files.update(Path(name).resolve() for name in re.findall(r"[^\s\\]+", listed.read_text().split(":", 1)[1]))
    digest = hashlib.sha256()
    for file in sorted(file for file in files if repository in file.parents):
        name = file.relative_to(repository)
        if name.parts[0].startswith((".", "build")):  # (generated, or of an installed package)
            continue
        comment = r"#.*" if file.suffix == ".txt" else r"//.*"
        code = "\n".join(filter(None, map(str.rstrip, re.sub(comment, "", file.read_text()).split("\n"))))
        digest.update(f"{name}\n{code}\n".encode())
    return digest.hexdigest()[:16]


def main():
    folder = Path(sys.argv[1])
    release = re.search(r"release (\S+),", output_of("nvcc", "--version"))[1]
    header = HEADER.format(nvcc=release, code=code_digest(folder))
    if "--known" in sys.argv:
        sys.exit(0 if TABLE.read_text().startswith(header) else 1)
    rows = {}
    for module in sorted(folder.glob("*.cubin")):
        rows.update(resources_of(module))
    text = as_text(rows, header)
    (folder / TABLE.name).write_text(text)
    if "--write" in sys.argv:
        TABLE.write_text(text)
        return
    faults, gains = compare(from_text(TABLE.read_text()), rows)
    for line in gains:
        print(f"less than in the table: {line}")
    if gains and not faults:
        print("Keep it: .ci/gpu device_code --write writes the table again.")
    if faults:
        sys.exit("Kernels take more of a GPU than tests/device/resources.txt says:\n" + "\n".join(faults) +
                 "\nIf that has to be, write the table again (.ci/gpu device_code --write) and say why in the commit.")


if __name__ == "__main__":
    main()
