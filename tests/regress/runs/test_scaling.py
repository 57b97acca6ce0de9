"""maniple bench scaling: learning on 1, 2, ... ranks of one job, as a table and for programs."""
# ctest: PROCESSORS 1

import json
import re

import pytest

from demonstrations import episodes, write_robomimic

TASK = ["inputs/train/isaac_cartpole.yaml", "batch.num_envs=96", "learning.horizon=4"]


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    demos = write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(40))
    return ["inputs/imitate/bc.yaml", f"data.file={demos}", "data.observations=[position, velocity]",
            "policy.hidden=[32]", "learning.batch_size=96", "learning.report_every=3"]


def table(result):
    """Of the output: the columns of each row."""
    rows = re.findall(r"^ +(\d+) +([\d.]+ ?[kMG]?)\S*? +([\d.]+)x +(\d+)% +([\d.]+)%$", result.stdout, re.M)
    return [(int(ranks), float(speed_up), int(efficiency)) for ranks, _, speed_up, efficiency, _ in rows]


@pytest.mark.parametrize("kind", ["task", "data"])
def test_scaling(maniple, tmp_path, deck, kind):
    keys = TASK if kind == "task" else deck
    result = maniple("bench", "scaling", *keys, "bench.iterations=2", f"output.directory={tmp_path}", ranks=3)
    assert f"strong scaling of learning: 96 {'environments' if kind == 'task' else 'samples of an update'} for all" in result.stdout
    assert not list(tmp_path.glob("*.h5"))
    report = json.loads((tmp_path / "bench.json").read_text())
    assert report["scaling"] == "strong" and report["unit"] == ("env-steps/s" if kind == "task" else "samples/s")
    assert [row["ranks"] for row in report["ranks"]] == [1, 2, 3]
    first = report["ranks"][0]["rate"]["median"]
    for row in report["ranks"]:
        assert 0 < row["rate"]["min"] <= row["rate"]["median"] <= row["rate"]["max"]
        assert row["speed_up"] == pytest.approx(row["rate"]["median"] / first, rel=1e-4)
        assert row["efficiency"] == pytest.approx(row["speed_up"] / row["ranks"], rel=1e-4)
        assert 0 <= row["communication"] < 1
    printed = table(result)
    assert [row[0] for row in printed] == [1, 2, 3]
    for (_, speed_up, efficiency), row in zip(printed, report["ranks"]):
        assert (speed_up, efficiency) == (pytest.approx(row["speed_up"], abs=0.006),
                                          pytest.approx(100 * row["efficiency"], abs=0.6))


def test_weak_scaling_gives_each_rank_a_batch(maniple, tmp_path, deck):
    result = maniple("bench", "scaling", *deck, "bench.scaling=weak", "bench.iterations=1", f"output.directory={tmp_path}",
                     ranks=2)
    assert "weak scaling of learning: 96 samples of an update for each rank" in result.stdout
    assert re.findall(r"batches of (\d+) per epoch", result.stdout) == ["96", "192"]


@pytest.mark.parametrize("keys, message", [
    (["learning.batch_per_rank=true"], "learning.batch_per_rank: found true with bench.scaling: strong"),
    (["data.file=[]"], "data.file: found nothing"),
])
def test_what_has_no_scaling_is_refused(maniple, tmp_path, deck, keys, message):
    result = maniple("bench", "scaling", *deck, *keys, f"output.directory={tmp_path}", ranks=2, exit_code=2, timeout=60)
    assert result.stderr.count("maniple: error:") == 1 and message in result.stderr, result.stderr
