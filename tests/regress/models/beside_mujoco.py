"""`maniple.Simulation` compared with `mj_step`: their difference, and that of MuJoCo's own answers when its start moves
by roundings. Run as a program, since a model may crash it: `beside_mujoco.py MODEL` prints a line of JSON.
"""

import json
import sys
from pathlib import Path

import mujoco
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))
import maniple  # noqa: E402

ENVS, COPIES, HELD = 8, 4, 20
CHECKED = (1, 11)


def controls_within(model, rng):
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, [-1, 1]).T
    return low + (high - low) * rng.random((ENVS, model.nu)) * 0.5


def compare(path):
    """At each of CHECKED steps the median over environments of the largest difference in qpos, against MuJoCo and of MuJoCo
    against itself from starts that differ by 1e-14. Both solve to convergence; controls are random and held."""
    model = mujoco.MjModel.from_xml_path(str(path))
    options = {"iterations": 100, "ls_iterations": 50, "tolerance": 1e-14}
    simulation = maniple.Simulation(str(path), ENVS, precision="double",
                                    overrides={f"simulation.{name}": value for name, value in options.items()})
    for name, value in options.items():
        setattr(model.opt, name, value)
    rng = np.random.default_rng(3)
    copies = [[mujoco.MjData(model) for _ in range(ENVS)] for _ in range(1 + COPIES)]
    qvel = rng.normal(size=(ENVS, model.nv)) * 0.05
    for number, datas in enumerate(copies):
        for data, velocity in zip(datas, qvel):
            data.qvel = velocity
            if number:
                data.qvel += rng.uniform(-1e-14, 1e-14, model.nv)
                mujoco.mj_integratePos(model, data.qpos, rng.uniform(-1e-14, 1e-14, model.nv), 1)
    simulation["qvel"] = qvel
    result = {}
    for step in range(1, CHECKED[-1] + 1):
        if step % HELD == 1:
            ctrl = controls_within(model, rng)
            simulation["ctrl"] = ctrl
            for datas in copies:
                for data, control in zip(datas, ctrl):
                    data.ctrl = control
        for datas in copies:
            for data in datas:
                mujoco.mj_step(model, data)
        simulation.step()
        if step in CHECKED:
            theirs = [np.array([data.qpos for data in datas]) for datas in copies]
            apart = lambda qpos: np.abs(qpos - theirs[0]).max(axis=1, initial=0)
            result[step] = {"difference": float(np.median(apart(simulation["qpos"]))),
                            "own": float(np.median(np.max([apart(qpos) for qpos in theirs[1:]], axis=0)))}
    result["dropped"] = int(simulation.dropped_contacts)
    result["bad"] = int(sum(warning.number for datas in copies[:1] for data in datas for warning in data.warning))
    return result


if __name__ == "__main__":
    print(json.dumps(compare(sys.argv[1])))
