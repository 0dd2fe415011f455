"""The PEP 517 backend: setuptools, plus one start-up line in every wheel.

Python runs the lines of `.pth` files when it starts. Ours turns the compiler on for a whole program when `JIT_AUTO` is
set. setuptools cannot ship such a file in an editable wheel, so it is added to the finished wheel here.
"""
import base64
import hashlib
import zipfile
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (every other hook is setuptools' own)

# Files are run in order of their names. This one imports a module of ours, so it must come after those that make it
# importable: `__editable__.*`, and any that other people's installations brought.
START_UP_NAME = "zz_framejit_start_up.pth"

# Every Python start pays for this line, so it reads the variable (as jit/config.py reads one) before it imports
# anything of ours. `-I` and `-E` promise that the environment has no say; Python still reads `.pth` files then.
START_UP_LINE = (
    "import os, sys; os.environ.get('JIT_AUTO', '').lower() not in ('', '0', 'false', 'no', 'off')"
    " and not sys.flags.ignore_environment and __import__('framejit_start').install()\n"
)

Settings = dict[str, str | list[str]] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    name = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    add_start_up(Path(wheel_directory, name))
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    name = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    add_start_up(Path(wheel_directory, name))
    return name


def add_start_up(wheel: Path) -> None:
    """Adds the start-up file to `wheel`, and to its RECORD, so that uninstalling takes it away again."""
    content = START_UP_LINE.encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    with_line = wheel.with_suffix(".tmp")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(with_line, "w", zipfile.ZIP_DEFLATED) as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith(".dist-info/RECORD"):
                data = f"{START_UP_NAME},sha256={digest},{len(content)}\n".encode() + data
            new.writestr(item, data)
        new.writestr(START_UP_NAME, content)
    with_line.replace(wheel)
