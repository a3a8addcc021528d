"""Names of Kubernetes objects and labels, and names in Slurm."""

import re
from typing import Annotated, Final

from components.config.values.validation import matching

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
DnsLabel = Annotated[
    str, matching(_DNS_LABEL, "a DNS label: 1 to 63 lower-case letters, digits and inner hyphens, such as gpu-a")
]
LONGEST_SET_NAME: Final = 40
SET_NAME: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
"""Name of a cluster or a node set but for its length, as a regular expression."""
SetName = Annotated[
    str,
    matching(
        rf"(?=.{{1,{LONGEST_SET_NAME}}}$){SET_NAME}",
        f"a DNS label: at most {LONGEST_SET_NAME} lower-case letters, digits and inner hyphens, a letter first, such "
        "as gpu-a",
    ),
]
"""Names of a cluster and of node sets."""
ObjectName = Annotated[
    str,
    matching(
        rf"(?=.{{1,253}}$){_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*",
        "the name of a Kubernetes object: lower-case letters, digits, inner hyphens and dots",
    ),
]
SecretKey = Annotated[str, matching(r"[A-Za-z0-9._-]{1,253}", "a key of a Secret: letters, digits, `.`, `_` and `-`")]
PartitionName = Annotated[
    str,
    # Slurm reads DEFAULT and ALL as more than names.
    matching(r"(?!(?i:default|all)$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", "letters, digits, `_`, `.`, `-`, such as main"),
]
_RECORD_NAME: Final = "[a-z0-9_][a-z0-9_.-]{0,254}"
"""Name of a record in slurmdbd as a regular expression: its database holds 255 characters (tinytext)."""
AccountName = Annotated[str, matching(_RECORD_NAME, "an account as sacctmgr shows it, in lower case, such as physics")]
QosName = Annotated[str, matching(_RECORD_NAME, "a QOS as sacctmgr shows it, in lower case, such as normal")]
GresType = Annotated[
    str,
    matching(
        r"[a-z0-9][a-z0-9_.-]{0,62}", "a GPU type such as h100 or 1g.10gb: lower-case letters, digits, `_`, `.` and `-`"
    ),
]
GresName = Annotated[
    str,
    matching(
        r"(?!(?:gpu|mps|shard)$)[a-z][a-z0-9_]{0,62}",
        "a name such as fpga: lower-case letters and digits; gpus has gpu, mps and shard",
    ),
]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a Kubernetes label key such as example.com/pool")]
ConditionType = Annotated[str, matching(_LABEL_KEY, "the type of a Kubernetes condition such as KernelDeadlock")]
LabelValue = Annotated[
    str, matching(_LABEL_VALUE, "a Kubernetes label value: at most 63 letters, digits, `.`, `_`, `-`")
]
FEATURE: Final = "[A-Za-z0-9_][A-Za-z0-9_.+=-]{0,62}"
"""Feature as a regular expression: Slurm makes several of one with a comma."""
Feature = Annotated[
    str,
    matching(
        FEATURE,
        "a feature of Slurm: letters, digits, `_`, `.`, `+`, `=` and `-`, such as avx512",
    ),
]
PoolName = Annotated[
    str, matching(r"[A-Za-z0-9]([A-Za-z0-9_]{0,61}[A-Za-z0-9])?", "letters, digits and inner `_`, such as fabric")
]
