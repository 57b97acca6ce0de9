"""Files of a run from Python: maniple.Run reads them, and the policy of
maniple.load_policy() acts as the program's own does, bit for bit."""
# ctest: PROCESSORS 1 COST 40

import subprocess
import sys

import h5py
import mujoco
import numpy as np
import pytest

import maniple
from conftest import ROOT, Maniple, start_tool

ROADS = "inputs/tasks/two_roads.yaml"
PENDULUM = ["inputs/tasks/gymnasium/inverted_pendulum_v5.yaml", "batch.num_envs=64", "learning.iterations=2", "policy.hidden=[16, 16]"]
SMALL = ["learning.preset=robomimic", "policy.hidden=[16]", "learning.steps=30", "learning.report_every=10", "learning.batch_size=16"]
RECURRENT = ["learning.preset=robomimic_rnn", "policy.hidden=[]", "policy.recurrent_units=9", "policy.recurrent_horizon=5",
             "learning.steps=30", "learning.report_every=10", "learning.batch_size=16"]
POLICIES = {
    "gaussian": ["train", *PENDULUM, "policy.normalize_observations=true", "policy.squash_actions=true"],
    "drawn": ["train", *PENDULUM, "evaluation.deterministic=false"],
    "asymmetric": ["train", *PENDULUM, "task.critic_observations=[{expression: qvel}, {expression: qpos}]"],
    "lstm": ["train", *PENDULUM, "policy.recurrent=lstm", "policy.recurrent_layers=2", "policy.recurrent_units=12"],
    "clone": ["imitate", ROADS, *SMALL],
    "mixture": ["imitate", ROADS, *SMALL, "learning.loss=gmm", "policy.modes=3"],
    "recurrent mixture": ["imitate", ROADS, *RECURRENT],
    "diffusion": ["imitate", ROADS, "learning.algorithm=diffusion", "diffusion.down_dims=[16, 16]", "diffusion.inference_steps=4",
                  "diffusion.prediction_horizon=8", "diffusion.action_horizon=4", "diffusion.step_embedding=16", "learning.steps=20", "learning.report_every=10",
                  "learning.batch_size=16"],
}


@pytest.fixture(scope="module")
def program():
    return Maniple()


@pytest.fixture(scope="module")
def demonstrations(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("roads")
    program("rollout", ROADS, "batch.num_envs=8", "simulation.steps=100", "initial_state.source=task", "control.source=random",
            "output.dataset=robomimic", f"output.directory={folder}")
    return folder / "demonstrations.hdf5"


def trained(program, directory, kind, demonstrations):
    keys = list(POLICIES[kind])
    if keys[0] == "imitate":
        keys.append(f"data.file={demonstrations}")
    program(*keys, f"output.directory={directory}")
    return directory


@pytest.mark.parametrize("kind", POLICIES)
def test_actions_are_the_programs(program, tmp_path, demonstrations, kind):
    """What a rollout recorded, step by step, with episodes that begin anew; 70 environments, more than a diffusion policy plans
    for at a time."""
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    run = trained(program, tmp_path / "run", kind, demonstrations)
    program("rollout", run, "batch.num_envs=70", "batch.seed=9", "simulation.steps=40", "initial_state.source=task",
            "task.episode_steps=17", "task.episode_length=0", "output.trajectory.every=1",
            "output.trajectory.fields=[observation, action, terminated, truncated]", f"output.directory={tmp_path / 'rollout'}")
    with maniple.Run(tmp_path / "rollout") as rollout:
        seen, done, terminated, truncated = (
            rollout.trajectories[name][:] for name in ("observation", "action", "terminated", "truncated"))
    ended = (terminated + truncated)[..., 0] > 0
    assert ended[:, 1:].any() and np.unique(done[:, 1:]).size > 70
    policy = maniple.load_policy(run, seed=9)
    assert policy.is_stateful == (kind in ("lstm", "recurrent mixture", "diffusion"))
    for step in range(40):
        if step:
            policy.reset(ended[:, step])
        np.testing.assert_array_equal(policy(seen[:, step]), done[:, step + 1], err_msg=f"step {step}")
    # from the beginning; a mask of the last step is of episodes that are not there any more
    policy.reset()
    np.testing.assert_array_equal(policy(seen[:, 0].tolist()), done[:, 1])


def test_episodes_are_those_of_an_evaluation(program, tmp_path):
    """The loop that a user writes: environments, policy, and what each has to know of ended episodes."""
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    program("train", *PENDULUM, "policy.recurrent=gru", "policy.recurrent_units=8", "task.episode_steps=30",
            f"output.directory={tmp_path}")
    program("evaluate", tmp_path, "batch.num_envs=40", "evaluation.episodes=80")
    run = maniple.Run(tmp_path)
    (tmp_path / "deck.yaml").write_text(run.deck)
    envs, policy = maniple.make_vec(tmp_path / "deck.yaml", 40, autoreset_mode="SameStep"), maniple.load_policy(run)
    observations, _ = envs.reset()
    returns = [[] for _ in range(40)]
    for _ in range(61):
        observations, _, terminated, truncated, infos = envs.step(policy(observations))
        ended = terminated | truncated
        policy.reset(ended)
        for env in np.flatnonzero(ended):
            returns[env].append(infos["episode"]["r"][env])
    np.testing.assert_array_equal(np.array([numbers[:2] for numbers in returns]).T.ravel(), run.evaluation["episode_return"])


def test_a_run(program, tmp_path):
    program("train", *PENDULUM, "learning.checkpoint_every=1", "learning.keep_checkpoints=5", "evaluation.every=1",
            f"output.directory={tmp_path}")
    run = maniple.Run(tmp_path)
    with h5py.File(tmp_path / "results.h5") as file:
        np.testing.assert_array_equal(run.metrics["episode_length"], file["metrics/episode_length"][()])
        assert run.record["version"] == file["run"].attrs["version"]
    assert isinstance(run.model, mujoco.MjModel) and run.model is run.model and run.model.nq == 2
    assert run.setting("batch.num_envs") == 64 and "num_envs: 64" in run.deck and run.evaluation == {}
    assert run.checkpoints == program.checkpoints(tmp_path) and len(run.checkpoints) == 2
    assert run.best.parts[-3:-1] == ("best", "checkpoints")
    program("evaluate", tmp_path)
    assert len(maniple.Run(tmp_path).evaluation["episode_return"]) == 64


def test_decks_are_yaml_for_others(program, tmp_path):
    """PyYAML reads every number of a resolved deck as one, those of terms included, and gives back the same deck."""
    yaml = pytest.importorskip("yaml")
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    small = "task.observations=[{expression: qpos, scale: 1e-6}, {expression: 'qvel * 1e-3 + 1.0e-5'}]"
    program("train", *PENDULUM, "task.critic_observations=~", small, "learning.adam_epsilon=1e-6", "policy.clip_observations=2e30",
            f"output.directory={tmp_path}")
    run = maniple.Run(tmp_path)
    deck = yaml.safe_load(run.deck)
    assert deck["learning"]["adam_epsilon"] == run.setting("learning.adam_epsilon") == 1e-6
    assert deck["output"]["dataset_min_return"] == -1e30 and deck["policy"]["clip_observations"] == 2e30
    assert deck["task"]["observations"][0]["scale"] == 1e-6 and deck["task"]["observations"][1]["expression"] == "qvel * 1e-3 + 1.0e-5"
    assert maniple.make_vec(deck).deck == run.deck
    maniple.load_policy(run)


def test_a_run_stands_for_its_deck(program, tmp_path):
    """As for all verbs: its task and model, also where a run has fewer environments than its minibatches need; not what belongs
    to that run alone."""
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    program("train", *PENDULUM, "task.episode_steps=17", "learning.minibatches=2", "control.source=random", f"output.directory={tmp_path / 'run'}")
    run = maniple.Run(tmp_path / "run")
    (tmp_path / "deck.yaml").write_text(run.deck)
    first = [maniple.make_vec(deck).reset()[0] for deck in (tmp_path / "deck.yaml", tmp_path / "run", str(run.path), run)]
    for rows in first[1:]:
        np.testing.assert_array_equal(rows, first[0])
    (tmp_path / "short.yaml").write_text("task: {episode_steps: 5}\n")
    for envs, steps in ((maniple.make_vec(run, 3), 17), (maniple.make_vec(run, overrides={"task.episode_steps": 7}), 7),
                        (maniple.make_vec({"include": [tmp_path / "run", tmp_path / "short.yaml"], "batch": {"num_envs": 3}}), 5)):
        assert envs.max_episode_steps == steps and envs.num_envs in (3, 64) and "source: \"zero\"" in envs.deck
    assert maniple.Simulation(tmp_path / "run", 5)["qpos"].shape == (5, run.model.nq)
    (tmp_path / "many/seed=1").mkdir(parents=True)
    (tmp_path / "many/seed=1/results.h5").write_bytes(run.path.read_bytes())
    program("evaluate", tmp_path / "run", f"output.directory={tmp_path / 'evaluated'}")
    for evaluation in (tmp_path / "evaluated", tmp_path / "evaluated/evaluation.h5"):
        assert maniple.make_vec(evaluation).max_episode_steps == 17
    for deck, message in ((tmp_path / "many", "has no results of its own; it has those of 1 run, for instance .*many/seed=1"),
                          ({"include": [run, tmp_path / "run"]}, "include: found the runs .*; allowed: one run"),
                          (run.checkpoints[0], "holds no deck; allowed: results of train, imitate, rollout or evaluate")):
        with pytest.raises(ValueError, match=message):
            maniple.make_vec(deck)
    with pytest.raises(TypeError, match="deck: found int; allowed: a file, the name of a deck, a run, or a dictionary"):
        maniple.make_vec(5)


def test_another_deck_asks_for_the_policys_keys(program, tmp_path):
    """The message names the way that works: the run before the deck."""
    program("train", *PENDULUM, "policy.shared=true", f"output.directory={tmp_path / 'run'}")
    (tmp_path / "mine.yaml").write_text(f"include: {ROOT}/{PENDULUM[0]}\ntask: {{episode_steps: 9}}\n")
    refused = program("evaluate", tmp_path / "mine.yaml", f"control.checkpoint={tmp_path / 'run'}", "policy.hidden=[16, 16]",
                      f"output.directory={tmp_path / 'out'}", exit_code=2)
    assert "policy.shared: the checkpoint has true" in refused.stderr and "maniple evaluate RUN deck.yaml" in refused.stderr
    program("evaluate", tmp_path / "run", tmp_path / "mine.yaml", f"output.directory={tmp_path / 'out'}")
    assert maniple.Run(tmp_path / "out/evaluation.h5").evaluation["episode_length"].max() <= 9


def test_the_folder_of_an_evaluation(program, tmp_path):
    """Its results are those of its file; what needs a policy, a learning curve or motion names the training instead."""
    folder = tmp_path / "evaluated"
    program("train", *PENDULUM, f"output.directory={tmp_path / 'run'}")
    program("evaluate", tmp_path / "run", "batch.num_envs=10", "evaluation.episodes=30", "task.metrics.speed=abs(qvel[slider])",
            f"output.directory={folder}")
    run = maniple.Run(folder)
    assert run.path == folder / "evaluation.h5" and run.setting("evaluation.episodes") == 30 and run.model.nq == 2
    assert run.evaluated == str(tmp_path / "run") and maniple.Run(tmp_path / "run").evaluated == ""
    with h5py.File(run.path) as file:
        assert list(run.evaluation) == list(file["evaluation"])
        np.testing.assert_array_equal(run.evaluation["speed"], file["evaluation/metric_speed"][()])
        mean, confidence = (file[f"evaluation/{name}"][0] for name in ("mean_return", "mean_return_confidence"))
    shown = start_tool("maniple/results.py", folder)
    assert f"{'episode_return':32s} {30:6d} episodes   mean {mean:.6g} +- {confidence:.3g} (95 %)\n" in shown.stdout
    # (a mean is no episode)
    assert {line.split()[1] for line in shown.stdout.splitlines()} == {"30"} and "speed " in shown.stdout, shown
    for tool in ("replay.py", "plot_learning_curve.py", "export_onnx.py"):
        refused = start_tool(tool, folder)
        assert refused.returncode == 2 and str(tmp_path / "run") in refused.stderr.splitlines()[-1], refused
        assert "evaluat" in refused.stderr and "Traceback" not in refused.stderr
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    for given in (folder, run, run.path):
        with pytest.raises(ValueError, match=f"is of an evaluation; allowed: the directory of the training, here {tmp_path / 'run'}$"):
            maniple.load_policy(given)


def test_runs_without_a_model(program, demonstrations, tmp_path):
    """A training on demonstrations alone has none, and a checkpoint neither model nor deck: both say so."""
    program("imitate", *SMALL, f"data.file={demonstrations}", f"output.directory={tmp_path}")
    run = maniple.Run(tmp_path)
    assert len(run.metrics["loss"]) == 3 and run.setting("learning.steps") == 30
    for read in (lambda: run.model, run.control_timestep):
        with pytest.raises(OSError, match="results.h5 holds no model: it is of a training on demonstrations alone"):
            read()
    checkpoint = maniple.Run(run.checkpoints[-1])
    for read, what in ((lambda: checkpoint.model, "model"), (lambda: checkpoint.setting("learning.steps"), "deck")):
        with pytest.raises(OSError, match=f"3.h5 holds no {what}; allowed: results of train, imitate, rollout or evaluate"):
            read()


def test_unknown_names_and_other_files(program, tmp_path):
    program("train", *PENDULUM, f"output.directory={tmp_path / 'run'}")
    program("evaluate", tmp_path / "run", f"output.directory={tmp_path / 'evaluated'}")
    run = maniple.Run(tmp_path / "run")
    assert run.setting("output.trajectory.every") == 0 and run.setting("policy.hidden") == [16, 16]
    assert run.setting("batch.numenvs", 5) == 5 and run.setting("batch.numenvs", None) is None
    for read, near in ((lambda: run.setting("batch.numenvs"), "found 'batch.numenvs'; nearest: batch.num_envs"),
                       (lambda: run.setting("batch"), "found 'batch'; "),
                       (lambda: run.metrics["episode_retrun"], "found 'episode_retrun'; nearest: episode_return"),
                       (lambda: run.trajectories["qpos"], "found 'qpos'; allowed: none, it is empty"),
                       (lambda: maniple.Run(tmp_path / "evaluated/evaluation.h5").evaluation["length"], "nearest: episode_length")):
        with pytest.raises(KeyError) as caught:
            read()
        assert near in caught.value.args[0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty has no results.h5 or evaluation.h5$"):
        maniple.Run(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="nowhere is not there"):
        maniple.Run(tmp_path / "nowhere")
    (tmp_path / "x.onnx").write_bytes(b"no HDF5")
    (tmp_path / "x.yaml").write_text("task: {}")
    for read, kind in ((maniple.Run, OSError), (maniple.load_policy, ValueError)):
        with pytest.raises(kind, match="x.onnx is a policy for other programs, which onnxruntime.* takes; allowed: the directory of a run"):
            read(tmp_path / "x.onnx")
        with pytest.raises(kind, match="x.yaml is a deck, which maniple.make_vec.* takes; allowed: the directory of a run"):
            read(tmp_path / "x.yaml")


def test_who_reads_may_have_enough(program, tmp_path):
    """`python -m maniple.results RUN | head` says nothing of a pipe that closes."""
    program("train", *PENDULUM, f"output.directory={tmp_path}")
    script = "sys.argv[1:] = [sys.argv[1]]\nfrom maniple import results\nwhile True: results.main()"
    text = f"import sys; sys.path.insert(0, {str(ROOT / 'tools')!r})\n{script}"
    with subprocess.Popen([sys.executable, "-c", text, tmp_path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_policies_are_told_how_to_act(program, tmp_path):
    program("train", *PENDULUM, f"output.directory={tmp_path}")
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    rows = np.zeros((5, 4), np.float32)
    mean, drawn = (maniple.load_policy(tmp_path, deterministic=way) for way in (True, False))
    np.testing.assert_array_equal(mean(rows), maniple.load_policy(tmp_path)(rows, deterministic=True))
    np.testing.assert_array_equal(drawn(rows), maniple.load_policy(tmp_path)(rows, deterministic=False))
    assert np.ptp(mean(rows)) == 0 and np.ptp(drawn(rows)) > 0
    np.testing.assert_array_equal(drawn(rows, deterministic=True), mean(rows))


class Unreadable:
    """An array whose numbers numpy does not have, as PyTorch's bfloat16."""

    def __dlpack__(self, **_):
        raise BufferError("no numbers of numpy's")

    def __dlpack_device__(self):
        return 1, 0


def test_refusals(program, tmp_path):
    pytest.importorskip("maniple.native", reason="MANIPLE_PYTHON_PACKAGE is off", exc_type=ImportError)
    run = tmp_path / "run"
    program("train", *PENDULUM, "policy.recurrent=gru", f"output.directory={run}")
    policy = maniple.load_policy(run)
    with pytest.raises(ValueError, match=r"found the shape \(3, 2\); allowed: \(n, 4\)"):
        policy(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="observations: found nan in component 1 of environment 2; allowed: finite numbers"):
        policy(np.where(np.arange(12).reshape(3, 4) == 9, np.nan, 0))
    with pytest.raises(ValueError, match="observations: found complex numbers; allowed: real numbers"):
        policy(np.zeros((3, 4), complex))
    with pytest.raises(ValueError, match=r"observations: found an array that numpy cannot read \(no numbers of numpy's\)"):
        policy(Unreadable())
    policy(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="found 2 rows; allowed: 3"):
        policy(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="mask: found 2 numbers; allowed: 3"):
        policy.reset(np.zeros(2, bool))
    policy.reset()
    policy(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="is not there"):
        maniple.load_policy(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="has no checkpoints"):
        maniple.load_policy(run, best=True)
    other = tmp_path / "other"
    program("train", *PENDULUM, "policy.recurrent=lstm", f"output.directory={other}")
    with pytest.raises(ValueError, match='policy.recurrent: the checkpoint has lstm, .* has gru'):
        maniple.load_policy(run, checkpoint=maniple.Run(other).checkpoints[-1])
    file = maniple.Run(run).checkpoints[-1]
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        maniple.load_policy(run)


def test_metrics_of_a_training_that_goes_on(program, tmp_path):
    """Its log has them before its results do, to the bit; the latest evaluation stands in each row."""
    directory = tmp_path / "run"
    process = program.start("train", *PENDULUM, "learning.iterations=100000", "learning.checkpoint_every=0", "evaluation.every=5",
                            "evaluation.episodes=4", "run.wall_time=1000", f"output.directory={directory}", ranks=0, log=tmp_path / "log")
    program.wait_for(lambda: (directory / "log.jsonl").is_file() and (directory / "log.jsonl").read_bytes().count(b'"event": "iteration"') > 20,
                     "21 iterations", process=process)
    with maniple.Run(directory) as run:
        before, stored = run.metrics, len(run.file["metrics/iteration"])
    (directory / "stop_now").touch()
    assert process.wait(60) == 75
    with maniple.Run(directory) as run:
        after = run.metrics
    rows = len(before["iteration"])
    assert stored < 5 and rows > 20 and np.isfinite(before["evaluation_return"]).sum() == rows - 4
    for name, values in after.items():
        np.testing.assert_array_equal(before[name], values[:rows], name)


def test_a_log_of_several_starts(program, tmp_path):
    """Iterations that came again after a resume are there once, as the last start had them; lines that are not whole are none."""
    program("train", *PENDULUM, "learning.iterations=6", f"output.directory={tmp_path}")
    with maniple.Run(tmp_path) as run:
        whole = run.metrics
    log = tmp_path / "log.jsonl"
    lines = [line for line in log.read_text().splitlines(keepends=True) if '"event": "iteration"' in line]
    earlier = [line.replace('"updates": ', '"updates": 1') for line in lines[:5]]
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        for name, values in whole.items():
            del file[f"metrics/{name}"]
            file[f"metrics/{name}"] = values[:2]
    unsealed = bytearray((tmp_path / "results.h5").read_bytes())
    unsealed[:4096] = bytes(4096)
    (tmp_path / "results.h5").write_bytes(unsealed)
    for text, rows in ((earlier + lines, 6), (earlier + lines[2:4], 4), (lines[:3] + [lines[3][:40]], 3), (lines[:2], 2)):
        log.write_text("".join(text))
        with maniple.Run(tmp_path) as run:
            for name, values in whole.items():
                np.testing.assert_array_equal(run.metrics[name], values[:rows], name)
