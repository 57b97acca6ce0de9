"""Mixed precision (learning.mixed_precision): products of factors rounded to bfloat16 against the same in torch,
networks and trainings compared with single precision, the same bits on any number of ranks, and a message elsewhere."""
# ctest: PROCESSORS 1

import platform
import random
import re
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import test_conditional_unet as unet
import test_image_encoder as encoder
from beside_torch import answers_of, check_against_torch, results_of, run_tool
from conftest import BUILD, of_the_day

from demonstrations import episodes, write_robomimic


def multiplies_bfloat16():
    """Of a build for the CPU of this machine, as CMake's defaults are."""
    cache = (BUILD / "CMakeCache.txt").read_text()
    flags = Path("/proc/cpuinfo").read_text()
    return (platform.machine() == "x86_64" and "avx512_bf16" in flags and "MANIPLE_ARCH:STRING=native" in cache
            and not re.search("MANIPLE_SCALAR_LANES:BOOL=ON|Kokkos_ENABLE_(CUDA|HIP):BOOL=ON", cache))


HERE = multiplies_bfloat16()
KINDS = {"unet": (unet, "unet_in_torch.py"), "encoder": (encoder, "encoder_in_torch.py")}
PRODUCTS = [(kind, number) for kind, (module, _) in KINDS.items() for number, case in enumerate(module.CASES)
            if case["kind"] in ("conv", "dense")]
NETS = [(kind, number) for kind, (module, _) in KINDS.items() for number, case in enumerate(module.CASES)
        if case["kind"] == kind]
DIFFUSION = ["inputs/imitate/diffusion.yaml", "data.observations=[position, velocity]", "diffusion.down_dims=[16, 32]",
             "diffusion.groups=4", "diffusion.kernel_size=3", "diffusion.step_embedding=16", "learning.warmup_steps=20",
             "learning.learning_rate=3e-4"]
CLONING = ["inputs/imitate/bc.yaml", "data.observations=[position, velocity]", "policy.hidden=[300, 40]"]
DECKS = {"diffusion": DIFFUSION, "cloning": CLONING,
         "recurrent": [*CLONING[:2], "policy.hidden=[]", "policy.recurrent=lstm", "policy.recurrent_units=20",
                       "policy.recurrent_horizon=4"]}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    return {(kind, rounded): answers_of(script, [{**case, "rounded": rounded} for case in module.CASES], tmp_path_factory.mktemp(kind))
            for kind, (module, script) in KINDS.items() for rounded in (False, True)}


@pytest.fixture(scope="module")
def demos(tmp_path_factory):
    return write_robomimic(tmp_path_factory.mktemp("data") / "demos.hdf5", episodes(12, shortest=9))


def imitate(maniple, demos, deck, directory, *keys, **rest):
    return maniple("imitate", *DECKS[deck], f"data.file={demos}", f"output.directory={directory}", *keys, **rest)


def digests(maniple, directory):
    return [maniple.digest(directory / "results.h5"), *map(maniple.digest, maniple.checkpoints(directory))]


def losses(directory):
    with h5py.File(directory / "results.h5") as file:
        return file["metrics/loss"][()]


if HERE:
    @pytest.mark.parametrize("kind, number", PRODUCTS)
    def test_products_are_of_rounded_factors(answers, kind, number):
        module, _ = KINDS[kind]
        case = module.CASES[number]
        cases = {number: (case["kind"], module.sizes_of(case))}
        found = results_of(module.TOOL, "bf16", cases, answers[kind, True])
        check_against_torch(answers[kind, True], number, found[number], "float")

    @pytest.mark.parametrize("kind, number", NETS)
    def test_networks_depart_as_torch_does(answers, kind, number):
        """Whole networks: where the last bits of a factor differ it may be rounded the other way, so that torch's numbers
        are not met but to a part of what both depart from exact factors."""
        module, _ = KINDS[kind]
        case = module.CASES[number]
        data = b"".join(values.astype(np.float32).tobytes() for key, values in answers[kind, True].items()
                        if key.startswith(f"{number}.in."))
        own = np.frombuffer(run_tool(module.TOOL, kind, "bf16", module.sizes_of(case), data), np.float32)
        exact, rounded = (np.concatenate([values for key, values in answers[kind, which].items()
                                          if key.startswith(f"{number}.out.")]) for which in (False, True))
        first = answers[kind, True][f"{number}.out." + {"unet": "prediction", "encoder": "features"}[kind]].size
        for part in (slice(0, first), slice(first, None)):  # what the network gives, and its gradient
            departs = np.linalg.norm((rounded - exact)[part])
            assert np.linalg.norm((own - rounded)[part]) < 0.6 * departs
            assert 0.8 * departs < np.linalg.norm((own - exact)[part]) < 1.25 * departs

    @pytest.mark.parametrize("deck", of_the_day(DECKS, "recurrent"))
    def test_any_number_of_ranks_and_near_single_precision(maniple, demos, tmp_path, deck):
        keys = ["learning.steps=60", "learning.report_every=15", "learning.checkpoint_every=2", "learning.batch_size=100"]
        found = {}
        for ranks in (1, 2, 3):
            imitate(maniple, demos, deck, tmp_path / str(ranks), *keys, "learning.mixed_precision=bf16", ranks=ranks)
            found[ranks] = digests(maniple, tmp_path / str(ranks))
            assert len(found[ranks]) == 3
        assert found[1] == found[2] == found[3]
        imitate(maniple, demos, deck, tmp_path / "single", *keys)
        rounded, single = losses(tmp_path / "1"), losses(tmp_path / "single")
        assert np.all(rounded != single) and rounded[-1] < rounded[0]
        np.testing.assert_allclose(rounded, single, rtol=0.02)

    @pytest.mark.nightly
    @pytest.mark.parametrize("deck", DECKS)
    def test_killed_and_continued_on_other_ranks(maniple, demos, tmp_path, deck):
        keys = ["learning.steps=150", "learning.report_every=5", "learning.checkpoint_every=1", "learning.resume=auto",
                "learning.keep_checkpoints=2", "learning.batch_size=64", "run.progress=plain", "learning.mixed_precision=bf16"]
        imitate(maniple, demos, deck, tmp_path / "whole", *keys, ranks=2)
        cut = tmp_path / "cut"
        process = maniple.start("imitate", *DECKS[deck], f"data.file={demos}", f"output.directory={cut}", *keys, ranks=2,
                                log=tmp_path / "log")
        maniple.wait_for(lambda: any(int(c.stem) >= 2 for c in maniple.checkpoints(cut)), "a checkpoint", process=process)
        time.sleep(random.Random(1).uniform(0, 0.03))
        killed = process.poll() is None
        maniple.kill_all(process)
        assert killed
        imitate(maniple, demos, deck, cut, *keys, ranks=3)
        assert digests(maniple, cut) == digests(maniple, tmp_path / "whole")

    def test_a_run_that_goes_on_otherwise_says_so(maniple, demos, tmp_path):
        keys = ["learning.report_every=2", "learning.resume=auto"]
        imitate(maniple, demos, "cloning", tmp_path, *keys, "learning.steps=4", "learning.mixed_precision=bf16")
        text = imitate(maniple, demos, "cloning", tmp_path, *keys, "learning.steps=6").stdout
        assert "learning.mixed_precision: the checkpoint has bf16, this run none" in text or \
            re.search("other differences: .*learning.mixed_precision", text), text
else:
    @pytest.mark.parametrize("deck", of_the_day(DECKS, "recurrent"))
    def test_a_device_without_it_says_so(maniple, demos, tmp_path, deck):
        result = imitate(maniple, demos, deck, tmp_path / "run", "learning.mixed_precision=bf16", ranks=2, exit_code=2)
        assert re.search("learning.mixed_precision: found bf16 on .+; allowed: none; bf16 on CPUs with AVX512_BF16", result.stderr)
        assert result.stderr.count("error:") == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("arguments, message", [
    (["train", "inputs/train/isaac_cartpole.yaml", "learning.mixed_precision=bf16"],
     "learning.mixed_precision: found bf16 with learning.algorithm: ppo; allowed: none; learning from environments is"),
    (["imitate", "inputs/imitate/bc.yaml", "learning.mixed_precision=fp16"],
     "learning.mixed_precision: found 'fp16'; allowed: none | bf16")])
def test_what_there_is_not(maniple, tmp_path, arguments, message):
    result = maniple(*arguments, f"output.directory={tmp_path / 'run'}", ranks=2, exit_code=2)
    assert message in result.stderr and result.stderr.count("error:") == 1
