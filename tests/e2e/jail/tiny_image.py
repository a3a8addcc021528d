"""Writes a docker-archive with a few of this system's programs, in place of a registry: tiny_image.py OUT.tar."""

import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

PROGRAMS = ("sh", "cat", "env", "id", "ls", "pwd", "sleep", "touch", "tty")


def add(tar, name, body, mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(body), mode
    tar.addfile(info, io.BytesIO(body))


def archive(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, (body, mode) in sorted(files.items()):
            add(tar, name, body, mode)
    return made.getvalue()


def content(path):
    return Path(path).read_bytes(), 0o755


# Elsewhere than in the jail, as images have them.
files = {f"image/bin/{name}": content(f"/usr/bin/{name}") for name in PROGRAMS}
files |= {"bin/sh": content("/usr/bin/sh"), "etc/greeting": (b"hello from an image\n", 0o644)}
for name in PROGRAMS:
    printed = subprocess.run(["ldd", f"/usr/bin/{name}"], capture_output=True, text=True, check=True).stdout
    files |= {library.lstrip("/"): content(library) for library in re.findall(r"(/\S+) \(0x", printed)}
layer = archive(files)
config = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Env": ["PATH=/image/bin", "COLOUR=blue", "FROM_IMAGE=yes"], "WorkingDir": "/image"},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
}
manifest = [{"Config": "config.json", "RepoTags": ["tiny:1"], "Layers": ["layer.tar"]}]
parts = {"config.json": json.dumps(config).encode(), "manifest.json": json.dumps(manifest).encode(), "layer.tar": layer}
Path(sys.argv[1]).write_bytes(archive({name: (body, 0o644) for name, body in parts.items()}))
