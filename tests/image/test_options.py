"""slurm.options knows every key of slurm.conf that the installed Slurm knows."""

import json
import subprocess
from pathlib import Path

from components.config.values import slurm_options

KEYS = """
import ctypes, json

class Key(ctypes.Structure):
    # s_p_options_t of Slurm's src/common/parse_config.h.
    _fields_ = [("key", ctypes.c_char_p), ("type", ctypes.c_int), *((f"more{i}", ctypes.c_void_p) for i in range(5))]

slurm = ctypes.CDLL("/opt/slurm/lib/slurm-wlm/libslurmfull.so")
found = []
for row in (Key * 1000).in_dll(slurm, "slurm_conf_options"):
    if row.key is None:
        break
    found.append(row.key.decode())
print(json.dumps(found))
"""
RETIRED = {
    *(
        "AccountingStorageUser",
        "AccountingStoreJobComment",
        "AcctGatherInfinibandType",
        "BackupAddr",
        "BackupController",
    ),
    *("ControlAddr", "ControlMachine", "CoreSpecPlugin", "CryptoType", "ExtSensorsFreq", "ExtSensorsType"),
    *("FastSchedule", "GetEnvTimeout", "JobCompPassScript", "JobContainerType", "JobCredentialPrivateKey"),
    *("JobCredentialPublicCertificate", "KeepAliveTime", "LaunchType", "MaxJobId", "PowerParameters", "PowerPlugin"),
    *("RoutePlugin", "SallocDefaultCommand", "SbcastParameters"),
}
"""Slurm's parser takes them to say that they do nothing, or under which name they went on; slurm.conf(5) has none."""
OF_THE_PARSER = {"frontendname", "include"}
"""Words that are ours and no key of that table: the first went with Slurm 25.05, the second is the file reader's."""


def test_every_key_of_the_installed_slurm_is_ours_or_refused_or_allowed(image: Path) -> None:
    """A new Slurm with another key fails here: say in slurm_options.py or slurm_conf_keys.txt whose it is."""
    asked = subprocess.run(
        ["chroot", image, "python3", "-c", KEYS], capture_output=True, text=True, timeout=60, check=False
    )
    assert asked.returncode == 0, asked.stderr
    installed = {key.lower() for key in json.loads(asked.stdout)} - {key.lower() for key in RETIRED}
    said = slurm_options.ALLOWED.keys() | slurm_options.OWNED.keys() | slurm_options.REFUSED.keys()
    assert sorted(installed - said) == [], "nobody said whether slurm.options may set these"
    assert sorted(said - installed) == sorted(OF_THE_PARSER), "Slurm does not have these"
