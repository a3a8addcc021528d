"""Further configuration files of Slurm that `slurm.files` takes, and checks of their text.

Each file that Slurm 26.05 looks for beside slurm.conf is in one of three tables: taken, this program's own, or refused
with a reason.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import yaml
from pydantic import AfterValidator, BeforeValidator

from components.config.values.project_files import MOST_BYTES, text_or_path
from components.config.values.validation import wrong


@dataclass(frozen=True, slots=True)
class Taken:
    """A file that may be given.

    Attributes:
        reader: who reads it; completes "read by …".
        key: the key of slurm.conf that has Slurm read it; empty if its presence is enough.
        word: the word of that key that this program adds; empty if the stack's configuration must set the key.
        needs: words of that key of which the stack's configuration must set one; empty if any value does.
        sent: whether slurmctld sends it to nodes and logins (fetch_config.c).
    """

    reader: str
    key: str = ""
    word: str = ""
    needs: tuple[str, ...] = ()
    sent: bool = True


TAKEN: Final[Mapping[str, Taken]] = {
    "acct_gather.conf": Taken("slurmctld and slurmd", key="AcctGatherInterconnectType"),
    "cli_filter.lua": Taken("srun, sbatch, salloc and scrontab, as the user", key="CliFilterPlugins", word="lua"),
    "job_submit.lua": Taken("slurmctld, for each new or changed job", key="JobSubmitPlugins", word="lua", sent=False),
    "jobcomp.lua": Taken("slurmctld, for each ended job", key="JobCompType", word="jobcomp/lua", sent=False),
    "mpi.conf": Taken("MPI plugins of your slurm image"),
    "rpc_queue.yaml": Taken("slurmctld", key="SlurmctldParameters", needs=("enable_rpc_queue",), sent=False),
    "topology.conf": Taken(
        "slurmctld, slurmd and commands",
        key="TopologyPlugin",
        needs=("topology/tree", "topology/block", "topology/ring", "topology/torus3d"),
    ),
    "topology.yaml": Taken("slurmctld, slurmd and commands"),
}
"""Name → who reads it, and with which key of slurm.conf."""

OURS: Final[Mapping[str, str]] = {
    "slurm.conf": "slurm.options, partitions and nodeSets say what is in it",
    "cgroup.conf": "slurm.cgroupPlugin and slurm.constrainCores say what is in it",
    "gres.conf": "nodeSets[].gpus and gres say what is in it",
    "plugstack.conf": "slurm.spankPlugins says what is in it; another one would run jobs outside the jail",
    "oci.conf": "it has the program that starts a step's container in the jail",
    "namespace.yaml": "the jail's plugin makes the namespaces of jobs",
    "job_container.conf": "the jail's plugin makes the namespaces of jobs",
    "slurmdbd.conf": "accounting says what is in it",
    "slurm.key": "keys come from credentials",
    "slurm.jwks": "keys come from credentials",
    "jwt.key": "keys come from credentials",
    "jwt_hs256.key": "keys come from credentials",
}
"""Name → why this program writes it itself."""

REFUSED: Final[Mapping[str, str]] = {
    "helpers.conf": "NodeFeaturesPlugins reads it, which runs programs on nodes, outside of the jail",
    "burst_buffer.conf": "BurstBufferType reads it, which runs programs in the pod of slurmctld",
    "burst_buffer.lua": "BurstBufferType reads it, which runs programs in the pod of slurmctld",
    "resources.yaml": "slurmctld ends unless slurm.conf names its nodes, and here nodes register themselves",
    "scrun.lua": "scrun needs an oci.conf of its own; steps with --container run in the jail",
    "fake_gpus.conf": "slurmd would report GPUs that are not there",
    "ca_cert.pem": "Debian's Slurm is built without tls/s2n",
}
"""Name → why nobody may give it."""

_INCLUDE: Final = re.compile(r"(?im)^[ \t]*include[ \t]")


def check_file_name(name: str) -> str:
    """The name, if `slurm.files` takes it.

    Raises:
        PydanticCustomError: Slurm reads no such file, or it is this program's own, or it would undo the jail.
    """
    if reason := OURS.get(name):
        raise wrong(f"another file: this program writes {name}, {reason}")
    if reason := REFUSED.get(name):
        raise wrong(f"no {name}: {reason}")
    if name not in TAKEN:
        close = difflib.get_close_matches(name.rpartition("/")[2].lower(), TAKEN, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        flat = "a name without folders, " if "/" in name else ""
        raise wrong(f"{flat}one of {', '.join(TAKEN)}{hint}")
    return name


def check_file_text(text: str) -> str:
    """The text, if Slurm can read it whole.

    Raises:
        PydanticCustomError: It is empty, too large for a ConfigMap, or holds NUL.
    """
    if not text.strip():
        raise wrong("text: an empty file says nothing, leave it out")
    wanted = []
    if "\0" in text:
        wanted.append("text without NUL, at which Slurm takes a file to end")
    if len(text.encode()) > MOST_BYTES:
        wanted.append(f"at most {MOST_BYTES >> 10} KiB: a ConfigMap holds no more beside slurm.conf")
    if wanted:
        raise wrong("; ".join(wanted))
    return text


def problems(files: Mapping[str, str], options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield file name and sentence for each file that Slurm would not read as it is meant.

    Args:
        files: Name → text, each valid alone.
        options: Keys of slurm.conf → value, as the stack's configuration sets them.
    """
    given = {key.lower(): value.lower() for key, value in options.items()}
    for name, text in files.items():
        taken = TAKEN[name]
        if (taken.sent or name.endswith(".conf")) and _INCLUDE.search(text):
            yield name, "no line that begins with Include: slurmctld would read a file that is not declared"
        # A key whose value is wrong is told of by itself.
        is_wrong = taken.key in options and taken.key.lower() not in given
        if taken.key and not is_wrong and (want := _missing(taken, given.get(taken.key.lower()))):
            yield name, f"{want}: Slurm reads {name} with it alone"
    if {"topology.yaml", "topology.conf"} <= files.keys():
        yield "topology.conf", "one of topology.yaml and topology.conf: Slurm reads the first alone"
    if (total := sum(len(text.encode()) for text in files.values())) > MOST_BYTES:
        largest = max(files, key=lambda name: len(files[name]))
        yield largest, f"at most {MOST_BYTES >> 10} KiB in all files together; they have {total} bytes"


def topologies(text: str) -> list[str] | None:
    """Return the names of the topologies in a topology.yaml; None if the text has another shape, which Slurm tells."""
    try:
        listed = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    rows = listed if isinstance(listed, list) else [listed]
    if not all(isinstance(row, Mapping) for row in rows):
        return None
    return [str(row["topology"]) for row in rows if row.get("topology") is not None]


def _missing(taken: Taken, value: str | None) -> str:
    """Return which option a file needs; empty if it is set, or this program sets it."""
    if taken.word:
        # A key of one value takes the place of ours; a list is added to it.
        other = value is not None and taken.word.startswith("jobcomp/") and value != taken.word
        return f"slurm.options.{taken.key}: {taken.word}, or none" if other else ""
    words = set((value or "").split(","))
    if taken.needs:
        return "" if words & set(taken.needs) else f"slurm.options.{taken.key}: {' or '.join(taken.needs)}"
    return "" if value else f"slurm.options.{taken.key}"


def loaded(files: Mapping[str, str]) -> dict[str, str]:
    """Return what slurm.conf must say so that Slurm reads these files: key → word, such as a plugin's name.

    Args:
        files: Name → text.
    """
    return {taken.key: taken.word for name, taken in TAKEN.items() if name in files and taken.word}


def loader(key: str, word: str) -> str:
    """Return the file that a word of a key runs; empty if the word runs none."""
    fits = (name for name, one in TAKEN.items() if one.word and (one.key.lower(), one.word) == (key.lower(), word))
    return next(fits, "")


FileName = Annotated[str, AfterValidator(check_file_name)]
FileText = Annotated[str, BeforeValidator(text_or_path), AfterValidator(check_file_text)]
