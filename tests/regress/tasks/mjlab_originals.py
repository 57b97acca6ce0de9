"""What the comparisons with mjlab share: equality of models, and its contact sensors over those of MuJoCo. A test calls
torch_in_numpy.install() before it imports this."""

import mujoco
import numpy as np
import torch_in_numpy
from mjlab.sensor import ContactSensor
from mjlab.sensor.contact_sensor import ContactData, _AirTimeState

tensor = torch_in_numpy.tensor
NUMBERS = {"joint": "njnt", "actuator": "nu"}  # of elements; others: n and their kind


def model_of(file):
    return mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": file["run/model_mjb"][()].tobytes()})


def assert_same_models(ours, theirs, sizes, fields, arrays, left_out=(), atol=0):
    """Sizes, options and whole arrays, and `fields` {kind: names} of the elements that have a name of ours, in any order. Our
    floor is mjlab's terrain."""
    for size in sizes.split():
        assert getattr(ours, size) == getattr(theirs, size), size
    for option in ("timestep", "integrator", "cone", "impratio", "solver", "disableflags"):
        assert getattr(ours.opt, option) == getattr(theirs.opt, option), option
    np.testing.assert_allclose(ours.opt.gravity, theirs.opt.gravity)
    for kind, names in fields.items():
        for i in range(getattr(ours, NUMBERS.get(kind, f"n{kind}"))):
            name = getattr(ours, kind)(i).name
            if not name or name in left_out:
                continue
            other = getattr(theirs, kind)("terrain" if (kind, name) == ("geom", "floor") else name).id
            for field in names.split():
                np.testing.assert_allclose(getattr(ours, field)[i], getattr(theirs, field)[other], rtol=1e-10, atol=atol,
                                           err_msg=f"{field} of {name}")
    for field in arrays.split():
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-10, err_msg=field)
    assert ours.nexclude == theirs.nexclude


class Contacts(ContactSensor):
    """mjlab's own, of sensors that MuJoCo reads: `count` primaries in each of `envs` environments."""

    def __init__(self, config, envs, count):
        super().__init__(config)
        if config.track_air_time:
            self._air_time_state = _AirTimeState(*(tensor(np.zeros((envs, count))) for _ in range(4)))
        if config.history_length:
            self._history_state = {"force": tensor(np.zeros((envs, count, config.history_length, 3)))}
        self.see(np.zeros((envs, count)), np.zeros((envs, count, 3)))

    def see(self, found, force):
        self.found, self.force = tensor(found), tensor(force)
        self._invalidate_cache()

    def _extract_sensor_data(self):
        return ContactData(found=self.found, force=self.force)
