"""Which published models run, and README.md's table of them, which `maniple validate` writes: with
MANIPLE_WRITE_TABLE=1 this test rewrites the table, otherwise it compares."""
# ctest: PROCESSORS 1

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "gymnasium": ("envs/mujoco/assets", "ant half_cheetah hopper humanoid humanoidstandup inverted_double_pendulum "
                  "inverted_pendulum point pusher reacher swimmer walker2d walker2d_v5"),
    "dm_control": ("suite", "acrobot ball_in_cup cartpole cheetah dog finger fish hopper humanoid humanoid_CMU lqr "
                   "manipulator pendulum point_mass quadruped reacher stacker swimmer walker"),
    "mjlab": ("asset_zoo/robots", "unitree_g1/xmls/g1 unitree_go1/xmls/go1"),
}
TABLE = re.compile(r"^\| package \|.*\n(?:\|.*\n)+", re.M)


def reasons(message):
    """What a refusal says after each file:line, without the names of elements."""
    found = []
    for line in message.splitlines():
        if line.startswith("  the deck can switch") or line.startswith("  supported"):
            continue
        match = re.match(r"  \S+?(?::\d+)?: (.*)", line)
        if match is None:
            continue
        text = re.sub(r'^(\w+) (?:"[^"]*"|number \d+ \(no name\)) (?:is )?', r"\1 ", match[1])
        text = re.sub(r"^.*may touch .*: ", "", text)  # who touches whom
        found.append(re.sub(r"[;,(].*", "", text).strip())
    assert found, message
    return found


def outcome(maniple, path):
    """("works" | "off" | "not yet", what stands in parentheses)."""
    result = maniple("validate", f"model.file=package:{path}", ranks=0, exit_code=None)
    if result.returncode == 0:
        return "works", ""
    assert result.returncode == 2, result.stdout + result.stderr
    message = result.stdout + result.stderr
    why = reasons(message)
    keys = re.findall(r"(model\.\w+): false", message)
    if keys:
        off = [f"{key}=false" for key in dict.fromkeys(keys)]
        result = maniple("validate", f"model.file=package:{path}", *off, ranks=0, exit_code=None)
        if result.returncode == 0:
            return "off", ", ".join(f"`{key}`" for key in off)
        # what no key switches off is the reason
        why = reasons(result.stdout + result.stderr)
    return "not yet", why[0]


def table(maniple):
    rows = ["| package | as they are | with deck keys | not yet |", "|---|---|---|---|"]
    for package, (folder, names) in MODELS.items():
        cells = {"works": {}, "off": {}, "not yet": {}}
        for name in names.split():
            kind, why = outcome(maniple, f"{package}/{folder}/{name}.xml")
            cells[kind].setdefault(why, []).append(Path(name).name)
        texts = ["; ".join(", ".join(models) + (f": {why}" if why else "") for why, models in cell.items())
                 for cell in cells.values()]
        rows.append(f"| {package} | " + " | ".join(texts) + " |")
    return "\n".join(rows) + "\n"


def test_the_table_says_what_validate_says(maniple):
    readme = ROOT / "README.md"
    text, wanted = readme.read_text(), table(maniple)
    print(wanted)
    if os.environ.get("MANIPLE_WRITE_TABLE"):
        text = TABLE.sub(lambda _: wanted, text)
        readme.write_text(text)
    shown = TABLE.findall(text)
    assert shown == [wanted], "MANIPLE_WRITE_TABLE=1 pytest tests/regress/test_supported_models.py rewrites it"
