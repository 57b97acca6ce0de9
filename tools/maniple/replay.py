"""Makes a page of a run on which its robots move: RUN/replay.html, one file that any browser opens, without a server.

    python -m maniple.replay runs/arm                         # a rollout that recorded qpos
    python -m maniple.replay runs/pendulum                    # a training: its newest policy is rolled out first, for seconds
    python -m maniple.replay runs/pendulum --follow           # again whenever the training saves a policy
    python -m maniple.replay demos.hdf5 --model robot.xml     # demonstrations in the layout of robomimic or Minari
    python -m maniple.replay runs/arm --image arm.png --time 2
    python -m maniple.replay runs/arm --video arm.mp4

The geometry is that of the model in results.h5, poses are those of qpos. Beside the scene are curves of reward,
reward_term, action (or ctrl) and commands, as far as they were recorded. Pictures and films are those of the page in
headless Chromium.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from maniple.browser import Browser
from maniple.replay_scene import scene
from maniple.replay_sources import recording_of
from maniple.results import Unreadable, checkpoints_in, refuse, results_path, what_is_missing

PAGE = Path(__file__).resolve().parent / "replay_page"
THREE = Path("/usr/share/javascript/three")  # Debian's libjs-three
NARROW = 900  # pixels, up to which the page has no room for curves
PARTS = ("marks.js", "curves.js", "replay.js")  # in the order in which they need one another
MOST_ENVS = 1000  # that a browser still draws


def page(description: str, arrays: str, three: Path) -> str:
    sources = [three / "three.min.js", three / "examples/js/controls/OrbitControls.js", *(PAGE / part for part in PARTS)]
    for source in sources:
        if not source.is_file():
            raise Unreadable(f"{source} is not there: three.js comes with Debian's package libjs-three, or --three names the folder "
                             "that has three.min.js and examples/js of release 111")
    scripts = "\n".join(f"<script>{source.read_text().replace('</script', '<' + chr(92) + '/script')}</script>" for source in sources)
    template = (PAGE / "replay.html").read_text()
    parts = {"DESCRIPTION": description.replace("</", "<\\/"), "ARRAYS": arrays, "SCRIPTS": scripts}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def page_of(given: argparse.Namespace, version: str = "", version_file: str = "") -> str:
    recording = recording_of(given.run, given)
    return page(*scene(recording, given.faces, given.force_scale, version, version_file), given.three)


def replace(file: Path, text: str) -> None:
    """Replaces a file, which is complete at any moment."""
    temporary = file.with_name(f"{file.name}.tmp.{os.getpid()}")
    try:
        temporary.write_text(text)
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def report(file: Path, what: str = "replay") -> None:
    print(f"{what}: {file} ({file.stat().st_size / 1e6:.1f} MB)", flush=True)


# ---- pages of a run in progress ----
def state_of(path: Path) -> list[tuple[str, int]]:
    """Signs of a save by a run: its checkpoints, and the state of its results."""
    directory = path if path.is_dir() else path.parent
    checkpoints = [checkpoints_in(directory / folder)[-1:] for folder in ("checkpoints", "best/checkpoints")]
    newest = [(file.name, file.stat().st_mtime_ns) for found in checkpoints for file in found]
    results = results_path(path)
    # (the results of a training change with every iteration, and its policy does not)
    return newest or [(results.name, results.stat().st_mtime_ns)] if results.is_file() else []


def follow(given: argparse.Namespace, output: Path) -> None:
    """Writes the page again after every change, until Ctrl-C. A page asks a script beside it, which file: pages may load, for
    its version."""
    if not given.run.exists():
        raise Unreadable(what_is_missing(given.run))
    version_file = output.with_suffix(".version.js")
    shown, said = None, None
    try:
        while True:
            try:
                state = state_of(given.run)
            except FileNotFoundError:  # (pruned since it was listed)
                state = None
            if state and state != shown:
                try:
                    version = str(time.time_ns())
                    replace(output, page_of(given, version, version_file.name))
                    replace(version_file, f'window.replayVersion = "{version}";\n')
                    report(output)
                    shown, said = state, None
                except Unreadable as error:
                    if str(error) != said:  # (a run may just be writing what is read)
                        print(f"replay: waiting: {error}", flush=True)
                    said = str(error)
            elif not state and said is None:
                said = f"{given.run} has saved nothing yet"
                print(f"replay: waiting: {said}", flush=True)
            time.sleep(given.every)
    except KeyboardInterrupt:
        print("replay: stopped", flush=True)


# ---- pictures and films ----
def film_writer(file: Path, fps: float, width: int, height: int
                ) -> tuple[Callable[[io.BytesIO], Any], Callable[[], None]]:
    """(add(png), close()) of a film in H.264, by PyAV, or by ffmpeg where that is installed."""
    try:
        import av
    except ImportError:
        av = None
    if av is not None:
        import matplotlib.image

        container = av.open(str(file), "w")
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"

        def add(png):
            picture = (matplotlib.image.imread(png, format="png")[..., :3] * 255).round().astype("uint8")
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture[:height, :width], format="rgb24")))

        def close():
            container.mux(stream.encode())
            container.close()
        return add, close
    if shutil.which("ffmpeg") is None:
        raise Unreadable(f"{file}: films need PyAV (pip install av) or ffmpeg, and found neither; --image needs none of them")
    process = subprocess.Popen(["ffmpeg", "-y", "-loglevel", "error", "-f", "image2pipe", "-framerate", str(fps), "-i", "-",
                                "-pix_fmt", "yuv420p", str(file)], stdin=subprocess.PIPE)

    def close():
        process.stdin.close()
        if process.wait() != 0:
            raise Unreadable(f"{file}: ffmpeg ended with {process.returncode}")
    return lambda png: process.stdin.write(png.read()), close


def pictures(given: argparse.Namespace) -> None:
    """The picture of a time, and the film, of the page in a browser."""
    width, height = given.size
    # (Chromium's helpers may write for a moment after their end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, Browser(folder, width, height) as browser:
        shown = Path(folder) / "replay.html"
        shown.write_text(page_of(given))
        browser.open(shown)
        browser.wait_for("Boolean(window.replay) || document.getElementById('problem')?.textContent")
        problem = browser.evaluate("document.getElementById('problem')?.textContent")
        if problem:
            raise Unreadable(f"{given.run}: the page says: {problem}")
        if given.curves and not browser.evaluate("replay.margins().length"):
            raise Unreadable(f"found --curves with {given.run}, which recorded none of reward, reward_term, action, ctrl and commands")
        browser.evaluate(f"replay.bare({str(not given.curves).lower()})")
        if given.camera is not None:
            cameras = browser.evaluate("[...document.getElementById('camera').options].map((option) => option.value)")
            if given.camera not in cameras:
                raise Unreadable(f"--camera {given.camera}; allowed: {', '.join(cameras)}")
            browser.evaluate(f"replay.camera('{given.camera}')")
        duration = browser.evaluate("replay.duration")
        if given.image is not None:
            moment = duration / 2 if given.time is None else given.time
            if not 0 <= moment <= duration:
                raise Unreadable(f"--time {moment:g}; allowed: 0 to {duration:g}, the seconds of {given.run}")
            browser.evaluate(f"replay.seek({moment})")
            given.image.write_bytes(browser.screenshot().getvalue())
            report(given.image, "image")
        if given.video is not None:
            add, close = film_writer(given.video, given.fps, width, height)
            try:
                for frame in range(int(duration * given.fps) + 1):
                    browser.evaluate(f"replay.seek({frame / given.fps})")
                    add(browser.screenshot())
            finally:
                close()
            report(given.video, "video")


def size_of(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)", text)
    if not found or not all(64 <= int(side) <= 8192 and int(side) % 2 == 0 for side in found.groups()):
        raise argparse.ArgumentTypeError(f"{text}; allowed: WIDTHxHEIGHT, even numbers from 64 to 8192, for instance 1280x720")
    return int(found[1]), int(found[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="directory of a run, its results.h5, or a file of demonstrations")
    parser.add_argument("--output", type=Path, help="page to write; default: replay.html in the run's directory, or beside the file")
    parser.add_argument("--envs", type=int, default=16, help="environments or demonstrations to show, the first ones (default 16)")
    parser.add_argument("--fps", type=float, default=30, help="frames per second of simulated time (default 30)")
    parser.add_argument("--seconds", type=float, default=10, help="simulated time of a trained policy (default 10)")
    parser.add_argument("--faces", type=int, default=60000, help="largest number of triangles of all meshes together (default 60000)")
    parser.add_argument("--force-scale", type=float, default=1, help="length of the arrows of forces; 1, the default: a force equal to the "
                        "weight of all moving bodies is an arrow of 0.7 of a robot's size")
    parser.add_argument("--three", type=Path, default=THREE, help=f"folder of three.js (default {THREE})")
    live = parser.add_argument_group("runs in progress")
    live.add_argument("--follow", action="store_true", help="write the page again when the run saves a policy or results, until "
                      "Ctrl-C; the open page loads itself again")
    live.add_argument("--every", type=float, default=2, help="seconds between two checks of the run (default 2)")
    files = parser.add_argument_group("pictures and films, in place of a page")
    files.add_argument("--image", type=Path, metavar="OUT.png", help="picture of one moment")
    files.add_argument("--time", type=float, help="time of the picture, in seconds; default: the middle")
    files.add_argument("--video", type=Path, metavar="OUT.mp4", help="film to write, in real time")
    files.add_argument("--size", type=size_of, default=(1280, 720), help="size of picture or film in pixels (default 1280x720)")
    files.add_argument("--camera", help="view of the camera: all, or the number of a robot from 0; default: all")
    files.add_argument("--curves", action="store_true", help="show the curves next to the scene")
    demonstrations = parser.add_argument_group("files of demonstrations")
    demonstrations.add_argument("--model", help="MJCF, URDF, MJB, or package:<package>/<path>, if the file does not name it")
    demonstrations.add_argument("--qpos", metavar="KEY", help="dataset of an episode that has the model's qpos, for "
                                "instance obs/qpos, or columns of one: 'obs/state[0:7]'")
    demonstrations.add_argument("--timestep", type=float, help="seconds between two frames, if the file does not state it")
    given = parser.parse_args()
    if not 1 <= given.envs <= MOST_ENVS:
        parser.error(f"--envs {given.envs}; allowed: 1 to {MOST_ENVS}")
    for option in ("fps", "seconds", "every", "force_scale", "timestep"):
        value = getattr(given, option)
        if value is not None and not 0 < value < 1e9:
            parser.error(f"--{option.replace('_', '-')} {value:g}; allowed: a number above 0")
    drawn = given.image is not None or given.video is not None
    if drawn and (given.follow or given.output):
        parser.error(f"found {'--follow' if given.follow else '--output'} with --image or --video; allowed: with a page")
    for option, suffixes in (("image", (".png",)), ("video", (".mp4", ".mkv", ".mov"))):
        file = getattr(given, option)
        if file is not None and file.suffix not in suffixes:
            parser.error(f"--{option} {file}; allowed: a name that ends in {' or '.join(suffixes)}")
    if drawn and given.curves and given.size[0] <= NARROW:
        parser.error(f"found --curves with --size {given.size[0]}x{given.size[1]}; allowed: wider than {NARROW}")
    for option in () if drawn else ("time", "camera", "curves"):
        if getattr(given, option):
            parser.error(f"found --{option} with a page; allowed: with --image or --video")
    try:
        if drawn:
            pictures(given)
            return
        output = given.output or (given.run if given.run.is_dir() else given.run.parent) / (
            "replay.html" if given.run.is_dir() or given.run.name == "results.h5" else f"{given.run.stem}.html")
        if given.follow:
            follow(given, output)
        else:
            replace(output, page_of(given))
            report(output)
    except OSError as error:
        refuse(error)


if __name__ == "__main__":
    main()
