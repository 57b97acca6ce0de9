"""Pictures of environments by MuJoCo's own renderer: what render() of make_vec()'s environments returns.

The renderer needs OpenGL on this machine. Environments differ in their poses, and where events change places and sizes of the
model, in these.
"""

from collections.abc import Mapping

import mujoco
import numpy as np
from numpy.typing import NDArray

FOLLOWING = "track"  # the camera that Gymnasium's robots have for this


class Pictures:
    """A renderer for one model. camera: a name or number of the model's; None: "track" where the model has it, else a free camera
    that looks at the first body that joints move. Raises ValueError for a size or camera that there is not, and RuntimeError
    where no OpenGL context can be made."""

    def __init__(self, mjb: bytes, width: int, height: int, camera: str | int | None) -> None:
        for name, value in (("width", width), ("height", height)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 1 <= value <= 8192:
                raise ValueError(f"{name}: found {value!r}; allowed: pixels, 1 to 8192")
        self._model = mujoco.MjModel.from_binary_path("model.mjb", {"model.mjb": mjb})
        self._camera = self._camera_of(camera)
        self._model.vis.global_.offwidth = max(width, self._model.vis.global_.offwidth)
        self._model.vis.global_.offheight = max(height, self._model.vis.global_.offheight)
        self._data = mujoco.MjData(self._model)
        try:
            self._renderer = mujoco.Renderer(self._model, int(height), int(width))
        except Exception as error:  # (each of MuJoCo's ways to OpenGL has errors of its own)
            raise RuntimeError(f"render_mode: no OpenGL context can be made here ({type(error).__name__}: {error}); allowed: the "
                               "environment variable MUJOCO_GL=egl (a GPU or Mesa, without a display) or MUJOCO_GL=osmesa (Mesa on "
                               "the CPU), set before Python starts, or render_mode=None") from None

    def of(self, fields: Mapping[str, NDArray[np.generic]]) -> NDArray[np.uint8]:
        """The picture [height, width, 3] of an environment with this state (qpos, mocap_pos, mocap_quat), in whose model the other
        fields have these numbers: of each row in mjModel, the first ones."""
        for name, values in fields.items():
            if hasattr(self._data, name):
                getattr(self._data, name).flat = values
                continue
            rows = getattr(self._model, name)
            rows = rows.reshape(len(rows), -1)
            rows[:, :values.size // len(rows)] = values.reshape(len(rows), -1)
            # what the compiler found to be at its body, or at its body's center of mass, need not be there
            for frames in (self._model.body_sameframe, self._model.geom_sameframe, self._model.site_sameframe):
                frames[:] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
        mujoco.mj_fwdPosition(self._model, self._data)
        if isinstance(self._camera, mujoco.MjvCamera):
            self._camera.lookat[:] = self._data.subtree_com[self._looked_at()]
        self._renderer.update_scene(self._data, self._camera)
        return np.array(self._renderer.render())

    def close(self) -> None:
        """Frees the OpenGL context."""
        self._renderer.close()

    def _camera_of(self, given: str | int | None) -> str | int | mujoco.MjvCamera:
        names = [self._model.camera(number).name for number in range(self._model.ncam)]
        if given is None and FOLLOWING in names:
            return FOLLOWING
        if given is None:
            free = mujoco.MjvCamera()
            mujoco.mjv_defaultFreeCamera(self._model, free)
            return free
        if (given in names and given != "") or (not isinstance(given, (str, bool)) and given in range(len(names))):
            return given
        raise ValueError(f"camera: found {given!r}; allowed: None"
                         + (f", {', '.join(map(repr, filter(None, names)))}, 0 to {len(names) - 1}" if names else ", as the model has no cameras"))

    def _looked_at(self) -> int:
        """The root of the first tree of bodies that joints move; the world of a model without one."""
        moving = np.flatnonzero(self._model.body_dofnum)
        return int(self._model.body_rootid[moving[0]]) if moving.size else 0
