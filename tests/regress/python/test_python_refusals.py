"""What the environments of `import maniple` refuse: decks with the words of the program, and misuse of an environment."""
# ctest: PROCESSORS 1

import re

import numpy as np
import pytest
from batches import HOPPER, maniple_program  # noqa: F401
from conftest import ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402


def test_refusals_are_those_of_the_program(maniple_program, tmp_path):
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"include: {ROOT}/inputs/tasks/gymnasium/hopper_v5.yaml\nsimulation:\n  decimations: 4\n")
    result = maniple_program("validate", deck, exit_code=2)
    message = re.search(r"maniple: error: (.*)", result.stderr).group(1)
    with pytest.raises(ValueError) as caught:
        maniple.make_vec(deck)
    assert str(caught.value) == message and "simulation.decimations: found an unknown key" in message
    for key, value, text in [("batch.num_envs", 0, "batch.num_envs: found '0'"), ("simulation.precision", "half", 'found the text "half"'),
                             ("batch.num_envs", 10**11, "MB are available"), ("model.file", "nowhere.xml", "nowhere.xml")]:
        with pytest.raises(ValueError, match=text):
            maniple.make_vec(HOPPER, overrides={key: value})
    with pytest.raises(ValueError, match="gymnasium/hopper_v5"):
        maniple.make_vec("gymnasium/hoper_v5")
    with pytest.raises(ValueError, match="found a deck without a task"):
        maniple.make_vec({"model": {"file": str(ROOT / "inputs/models/arm6.xml")}})
    with pytest.raises(ValueError, match="autoreset_mode: found 'next_step'; allowed: 'NextStep', 'SameStep', 'Disabled'"):
        maniple.make_vec(HOPPER, 4, autoreset_mode="next_step")
    for threads in (0, 1.5):
        with pytest.raises(ValueError, match=f"threads: found {threads}; allowed: an integer of at least 1"):
            maniple.make_vec(HOPPER, 4, threads=threads)
    with pytest.raises(ValueError, match="comm: found 3; allowed: None, or a communicator of mpi4py"):
        maniple.make_vec(HOPPER, 4, comm=3)
    with pytest.raises(ValueError, match="^batch.num_envs: found"):  # there is no command line
        maniple.make_vec(HOPPER, 0)
    for name, near in (("Hopper-v5", HOPPER), ("HalfCheetah-v5", "gymnasium/half_cheetah_v5"), ("inverted_pendulum_v5", "gymnasium/inverted_pendulum_v5")):
        with pytest.raises(ValueError, match=f"nearest: {near}$"):
            maniple.make_vec(name)
    for section in ({"tsk": {"name": "x"}}, {"tsk": {}}):
        with pytest.raises(ValueError, match="tsk: found an unknown key; nearest known key: task"):
            maniple.make_vec({"model": {"file": str(ROOT / "inputs/models/arm6.xml")}, **section})
    with pytest.raises(ValueError, match="deck: found a deck's text; allowed: yaml.safe_load") as caught:
        maniple.make_vec(maniple.make_vec(HOPPER, 4).deck)
    assert len(str(caught.value)) < 200
    with pytest.raises(TypeError, match="not object"):
        maniple.make_vec(HOPPER, overrides={"batch.num_envs": object()})


def test_misuse_is_refused():
    envs = maniple.make_vec(HOPPER, 4)
    action = np.zeros((4, 3), np.float32)
    with pytest.raises(RuntimeError, match="reset\\(\\) comes before"):
        envs.step(action)
    with pytest.raises(RuntimeError, match="first reset resets all"):
        envs.reset(options={"reset_mask": np.array([True, False, False, False])})
    envs.reset()
    with pytest.raises(ValueError, match=r"found the shape \(3, 3\); allowed: \(4, 3\)"):
        envs.step(action[:3])
    with pytest.raises(ValueError, match="actions: found complex numbers; allowed: real numbers"):
        envs.step(action + 1j)
    with pytest.raises(ValueError, match="found the shape \\(4,\\) with 0"):
        envs.reset(options={"reset_mask": np.zeros(4, bool)})
    with pytest.raises(TypeError, match="found an array of int64"):
        envs.reset(options={"reset_mask": np.ones(4, int)})
    with pytest.raises(TypeError, match="found list"):
        envs.reset(options={"reset_mask": [True] * 4})
    with pytest.raises(ValueError, match="found 'mask'"):
        envs.reset(options={"mask": np.ones(4, bool)})
    for seed in ([1, 2, 3, 5], [1, 2, 3], [], np.array([4, 3, 2, 1])):
        with pytest.raises(ValueError if len(seed) else TypeError, match="seed: found .* allowed: one integer for the whole batch"):
            envs.reset(seed=seed)
    with pytest.raises(TypeError, match="one integer for the whole batch"):
        envs.reset(seed=1.5)
    np.testing.assert_array_equal(envs.reset(seed=[7, 8, 9, 10])[0], envs.reset(seed=7)[0])  # as in a SyncVectorEnv
    with pytest.raises(ValueError, match=r"actions: found None; allowed: an array of the shape \(4, 3\)"):
        envs.step(None)
    with pytest.raises(ValueError, match="together with a reset_mask"):
        envs.reset(seed=1, options={"reset_mask": np.ones(4, bool)})
    envs.close()
    with pytest.raises(RuntimeError, match="were closed"):
        envs.step(action)
    envs.close()


def test_actions_that_are_no_numbers_are_refused():
    envs = maniple.make_vec("inputs/tasks/pendulum_swingup.yaml", 5)
    envs.reset(seed=1)
    actions = np.zeros(envs.action_space.shape, np.float32)
    actions[3] = np.nan
    with pytest.raises(ValueError, match="actions: found nan in component 0 of environment 3; allowed: finite numbers"):
        envs.step(actions)
    envs.close()
