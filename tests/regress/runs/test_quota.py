"""A quota that is exceeded in the middle of a parallel write, where the file system cannot reserve space beforehand
(NFS, older Lustre): an error on every rank within seconds, never an endless wait."""
# ctest: PROCESSORS 1

import pytest

QUOTA = 1 << 20  # bytes


@pytest.mark.parametrize("verb", ["rollout", "train"])
def test_quota_in_a_parallel_write_ends_all_ranks(maniple, preload, tmp_path, verb):
    if verb == "rollout":
        arguments = ["rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=3000", "control.source=random",
                     "simulation.steps=400", "output.trajectory.every=1", "output.trajectory.fields=[qpos,qvel]"]
    else:
        arguments = ["train", "inputs/train/isaac_cartpole.yaml", "batch.num_envs=60000", "learning.iterations=1",
                     "learning.horizon=1", "learning.minibatches=1", "learning.epochs=1"]
    environment = {"LD_PRELOAD": preload("quota"), "MANIPLE_QUOTA": QUOTA, "MANIPLE_QUOTA_DIRECTORY": tmp_path}
    result = maniple(*arguments, f"output.directory={tmp_path}", ranks=3, exit_code=1, timeout=60,
                     environment=environment)
    assert result.stderr.count("maniple: error:") == 1, result.stderr
    assert str(tmp_path) in result.stderr and "quota" in result.stderr, result.stderr
