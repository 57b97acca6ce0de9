"""Files with a flipped bit, cut short, or of absurd size: a message and exit code 2, never a crash, a wait without
end, or other numbers. Files of this program have a checksum of all their bytes; those of others have none."""
# ctest: PROCESSORS 1

import random
import shutil

import h5py
import numpy as np
import pytest
from conftest import of_the_day

STRUCTURES = [b"\x89HDF", b"OHDR", b"OCHK", b"FRHP", b"FHDB", b"BTHD", b"BTLF", b"FADB", b"EAHD", b"TREE", b"HEAP",
              b"SNOD", b"GCOL"]


def places_of_structures(data):
    """Byte positions in the first 64 bytes of HDF5's own structures."""
    places = []
    for structure in STRUCTURES:
        at = data.find(structure)
        while at >= 0:
            places += range(at, min(at + 64, len(data)))
            at = data.find(structure, at + 1)
    return places


def flip(path, good, place, bit):
    data = bytearray(good)
    data[place] ^= 1 << bit
    path.write_bytes(data)


@pytest.fixture(scope="module")
def results(maniple, tmp_path_factory):
    directory = tmp_path_factory.mktemp("rollout")
    maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=40", "simulation.steps=4",
            "output.trajectory.every=1", "output.trajectory.fields=[qpos]", f"output.directory={directory}")
    return directory / "results.h5"


def test_plain_h5py_reads_sealed_files(results):
    with h5py.File(results) as file:
        assert file.userblock_size == 4096
        assert file["trajectory/qpos"].shape[:2] == (40, 5)


def test_inspect_of_damaged_results(maniple, results, tmp_path):
    path, good = tmp_path / "results.h5", results.read_bytes()
    chance = random.Random(1)
    for place in chance.sample(places_of_structures(good), 12) + [chance.randrange(len(good)) for _ in range(4)]:
        flip(path, good, place, chance.randrange(8))
        result = maniple("inspect", path, ranks=0, exit_code=None, timeout=60)
        if place < 15:  # the words that say that there is a checksum: as if it were a file of others
            assert result.returncode in (0, 2)
        else:
            assert result.returncode == 2 and str(path) in result.stderr, (place, result)
            assert "checksum" in result.stderr or "damaged" in result.stderr, result.stderr
    path.write_bytes(good[:len(good) // 2])
    assert "truncated" in maniple("inspect", path, ranks=0, exit_code=2).stderr


def arm_controls(path, **options):
    with h5py.File(path, "w", **options) as file:
        file.create_dataset("ctrl", data=np.zeros((20, 10, 6)), chunks=(4, 5, 6), compression="gzip")
        for i in range(40):
            file.create_group(f"group{i}").attrs["text"] = "variable length"
            file["ctrl"].attrs[f"attribute{i}"] = "text " * 10


def rollout(maniple, controls, directory, exit_code):
    return maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=20", "simulation.steps=10",
                   "control.source=file", f"control.file={controls}", f"output.directory={directory}",
                   "output.overwrite=true", ranks=2,
                   exit_code=exit_code, timeout=120)


@pytest.mark.parametrize("version", of_the_day(["earliest", "v110"], "v110"))
def test_damaged_files_of_others(maniple, tmp_path, version):
    # what HDF5 makes of them is its own; the program has to come to an end in order
    path = tmp_path / "controls.h5"
    arm_controls(path, libver=(version, "v110"))
    rollout(maniple, path, tmp_path / "run", 0)
    good = path.read_bytes()
    chance = random.Random(version)
    for place in chance.sample(places_of_structures(good), 20):
        flip(path, good, place, chance.randrange(8))
        assert maniple("inspect", path, ranks=0, exit_code=None, timeout=100).returncode in (0, 2), place
    for place in chance.sample(places_of_structures(good), 3):
        flip(path, good, place, chance.randrange(8))
        assert rollout(maniple, path, tmp_path / "run", None).returncode in (0, 2), place


def test_a_changed_file_of_ours_is_no_input(maniple, tmp_path):
    # recorded controls, damaged afterwards
    maniple("rollout", "model.file=inputs/models/arm6.xml", "batch.num_envs=20", "simulation.steps=10",
            "control.source=random", "output.trajectory.every=1", "output.trajectory.fields=[ctrl]",
            f"output.directory={tmp_path}")
    path = tmp_path / "recorded.h5"
    shutil.copy(tmp_path / "results.h5", path)
    with h5py.File(path, "r+") as file:
        file["ctrl"] = h5py.SoftLink("/trajectory/ctrl")
    message = rollout(maniple, path, tmp_path / "run", 2).stderr
    assert "control.file" in message and str(path) in message, message


def test_sparse_datasets_are_refused(maniple, tmp_path):
    path = tmp_path / "sparse.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("ctrl", shape=(20, 1 << 60, 6), chunks=(20, 64, 6))
    assert "sparse" in rollout(maniple, path, tmp_path / "run", 2).stderr
    assert "sparse" in maniple("inspect", path, ranks=0, exit_code=2, timeout=60).stderr
