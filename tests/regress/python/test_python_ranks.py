"""Environments of `import maniple` on several ranks, which have parts of one batch: the bits of the whole one, and one refusal
for all."""
# ctest: PROCESSORS 1

import subprocess
import sys

import numpy as np
import pytest
from batches import CURRICULA, HOPPER, PENDULUM, assert_same, draws, steps_of
from conftest import ENVIRONMENT, ROOT

pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
import maniple  # noqa: E402


class OneOf:
    """Stands for a communicator: this rank of `size`, all of which say the same."""

    def __init__(self, rank, size, others=None):
        self.rank, self.size, self.others = rank, size, others

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return self.size

    def allgather(self, told):
        return [told, *(self.others or [told] * (self.size - 1))]


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_have_parts_of_the_batch(ranks):
    overrides = {"task.episode_steps": 9}
    whole = maniple.make_vec(HOPPER, 100, seed=1, overrides=overrides)
    actions = draws(whole, 15)
    want = [whole.reset()[0], *steps_of(whole, actions)]
    parts = [maniple.make_vec(HOPPER, 100, seed=1, overrides=overrides, comm=OneOf(rank, ranks)) for rank in range(ranks)]
    assert sum(part.num_envs for part in parts) == 100 and parts[0].global_num_envs == 100
    got = []
    for part in parts:
        own = slice(part.first_env, part.first_env + part.num_envs)
        got.append([part.reset()[0], *steps_of(part, actions[:, own])])
    assert_same([np.concatenate(arrays) for arrays in zip(*got, strict=True)], want)


def test_ranks_refuse_together():
    with pytest.raises(ValueError, match="comm: found different decks"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [(False, "", "another deck")]))
    with pytest.raises(ValueError, match="no such file over there"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [("ValueError", "no such file over there", None)]))
    with pytest.raises(RuntimeError, match="a disk failed"):
        maniple.make_vec(HOPPER, 64, comm=OneOf(0, 2, [("RuntimeError", "a disk failed", None)]))
    with pytest.raises(ValueError, match="batch.num_envs: 4 environments on 3 ranks; at least 2"):
        maniple.make_vec(HOPPER, 4, comm=OneOf(0, 3))


def test_ranks_of_mpi(tmp_path):
    pytest.importorskip("mpi4py", reason="not installed")
    script = tmp_path / "ranks.py"
    script.write_text(f"""
import sys
sys.path.insert(0, {str(ROOT / "tools")!r})
import numpy as np
from mpi4py import MPI
import maniple
comm = MPI.COMM_WORLD
envs = maniple.make_vec("{HOPPER}", 70, seed=1, comm=comm)
whole = maniple.make_vec("{HOPPER}", 70, seed=1)
own = slice(envs.first_env, envs.first_env + envs.num_envs)
np.testing.assert_array_equal(envs.reset()[0], whole.reset()[0][own])
for action in np.random.default_rng(0).uniform(-1, 1, (9, 70, 3)).astype(np.float32):
    for mine, all_of_it in zip(envs.step(action[own])[:4], whole.step(action)[:4]):
        np.testing.assert_array_equal(mine, all_of_it[own])
try:
    maniple.make_vec("{HOPPER}" if comm.rank else "no such deck", 70, comm=comm)
except ValueError as error:
    assert "no such deck" in str(error)
else:
    raise SystemExit("not refused")
open(f"rank_{{comm.rank}}", "w").write(str(envs.num_envs))
""")
    result = subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable, str(script)],
                            cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
    # (a file for each: mpirun may mix what ranks print)
    assert [(tmp_path / f"rank_{rank}").read_text() for rank in (0, 1)] == ["32", "38"]


def test_ranks_set_the_same_value():
    with pytest.warns(UserWarning):
        envs = maniple.make_vec(PENDULUM, 64, overrides=CURRICULA, comm=OneOf(0, 2))
    envs.set_curriculum("level", 0.75)
    assert envs.curricula["level"] == 0.75
    for told, message in (((False, "", "level = 2"), "comm: found different values of a curriculum on its ranks"),
                          (("ValueError", "curriculum: found 'x'", "x = 1"), "curriculum: found 'x'")):
        envs._comm.others = [told]
        with pytest.raises(ValueError, match=message):
            envs.set_curriculum("level", 1)
        assert envs.curricula["level"] == 0.75
