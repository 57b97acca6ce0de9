"""Trainings whose numbers go wrong: rewards and observations that are no numbers, and a deviation that runs away."""
# ctest: PROCESSORS 1

import re

from refusals import CARTPOLE, short


def test_a_training_in_which_nothing_is_valid(maniple, tmp_path):
    """It has nothing to learn from; one with valid samples learns from those."""
    arguments = ["train", CARTPOLE, "batch.num_envs=64", *short(tmp_path), "learning.iterations=3", "output.overwrite=true"]
    worse = "log(-1 - abs(qpos[slider_to_cart]))"
    result = maniple(*arguments, f"task.rewards={{worse: {{expression: '{worse}'}}}}", exit_code=1, ranks=2, timeout=60)
    assert re.findall("maniple: error: (.*)", result.stdout + result.stderr) == [
        "iteration 1: all 1024 control steps left out of learning (not finite or beyond 1e10: reward worse): nothing is left to "
        "learn from"]
    result = maniple(*arguments, f"task.rewards.worse={{expression: 'qpos[slider_to_cart] > 0 ? {worse} : 0'}}", timeout=60)
    assert re.search(r"iteration 3: \d+ control steps left out of learning", result.stdout + result.stderr)
    # observations that are no numbers become 0, which is said at once and at the end
    result = maniple(*arguments, f"task.observations=[{{expression: '{worse}'}}]", timeout=60)
    counts = [int(count) for count in re.findall(r"warning: (\d+) rewards or observations were not finite", result.stderr)]
    assert len(counts) == 2 and counts[0] < counts[1] / 2, result.stderr


def test_a_deviation_that_runs_away_is_named_once(maniple, tmp_path):
    arguments = ["train", CARTPOLE, "batch.num_envs=64", *short(tmp_path), "learning.iterations=3", "output.overwrite=true",
                 "policy.state_dependent_std=true", "learning.entropy_coef=10", "learning.schedule=fixed", "learning.learning_rate=0.02"]
    said = lambda *keys: re.findall(r"warning: (iteration \d+: the standard deviation of the actions has grown to [\d.e+]+, from 1 "
                                    r"\(policy.init_std\): the actions are almost only noise; .* keeps it small)", maniple(*arguments, *keys, ranks=2, timeout=60).stderr)
    first, = said()
    assert first.endswith("; policy.max_std or a smaller learning.entropy_coef (it is 10) keeps it small")
    # no advice that is taken already
    assert said("policy.max_std=5") == []
    wide, = said("policy.max_std=1e9", "learning.curricula.entropy_coef=10")
    assert wide.endswith("; a smaller policy.max_std (it is 1e+09) or a smaller learning.curricula.entropy_coef keeps it small")
