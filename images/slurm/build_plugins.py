"""Builds SPANK plugins from the sources in images/slurm/plugins, in the build stage of the slurm image.

`make` builds each folder against the headers of the image's Slurm. The image gets the .so files of that folder. A
process that such a plugin forks in slurmstepd is confined like a task of the job. Its `fork`, `setns` and
`execvpe` are those of native/plugins/confined_fork.c.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

INSTEAD = ("-Dfork=confined_fork", "-Dsetns=confined_setns", "-Dexecvpe=confined_execvpe")


def main(plugins: Path, native: Path) -> None:
    """Puts the .so files of each folder with a Makefile beside the folders.

    Args:
        plugins: images/slurm/plugins.
        native: where ``make -C native`` left confined_fork.o.

    Raises:
        SystemExit: a folder has no Makefile, or makes no plugin.
    """
    for folder in sorted(path for path in plugins.iterdir() if path.is_dir()):
        if not (folder / "Makefile").exists():
            sys.exit(f"images/slurm/plugins/{folder.name} has no Makefile: it is to hold a plugin's source")
        # As environment variables, to which a Makefile adds its own.
        flags = {"CPPFLAGS": " ".join(INSTEAD), "LDFLAGS": str(native / "confined_fork.o")}
        subprocess.run(["make", "-C", folder], env={**os.environ, **flags}, check=True, timeout=600)
        made = sorted(folder.glob("*.so"))
        if not made:
            sys.exit(f"images/slurm/plugins/{folder.name}: make left no .so there")
        for file in made:
            shutil.copy(file, plugins / file.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
