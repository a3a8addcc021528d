"""Types of single configuration values: each says in words what it wants."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

from contract import names

WANT: Final = "want"
"""Type of the validation errors raised here; their message completes "want …"."""

_MEMORY = re.compile(r"(\d+)(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)")
_FACTOR: Final[dict[str, int]] = {
    **{f"{prefix}i": 1024**power for power, prefix in enumerate("KMGTP", 1)},
    **{prefix: 1000**power for power, prefix in enumerate("kMGTP", 1)},
}
_CPU = re.compile(r"(\d+(?:\.\d{1,3})?)(m?)")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PERCENTAGE = re.compile(r"([1-9]\d?|100)%")
_DURATION = re.compile(r"[1-9]\d*[smh]")
_SLURM_TIME = re.compile(r"\d+|\d+:[0-5]\d|\d+:[0-5]\d:[0-5]\d|\d+-\d{1,2}(:[0-5]\d(:[0-5]\d)?)?|UNLIMITED")
_CONTENT_TAG = re.compile(r"(?:[a-z0-9._-]*[._-])?[0-9a-f]{8,64}")
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9._-]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_SSH_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-ssh-ed25519@openssh\.com"
    r"|sk-ecdsa-sha2-nistp256@openssh\.com) ([A-Za-z0-9+/]+={0,2})( [^\n\r]*)?"
)
_DEVICES = re.compile(
    r"/dev/(?!\.\.?/)[A-Za-z0-9_/-]+(?:\[(?P<ranges>\d{1,3}(?:-\d{1,3})?(?:,\d{1,3}(?:-\d{1,3})?)*)\])?"
)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def wrong(want: str) -> PydanticCustomError:
    """An error whose text completes "got …; want …"."""
    return PydanticCustomError(WANT, "{want}", {"want": want})


def matching(pattern: str | re.Pattern[str], want: str) -> AfterValidator:
    """A check that the whole text fits a pattern; ``want`` completes "got …; want …"."""
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise wrong(want)
        return value

    return AfterValidator(check)


def text_of(want: str) -> BeforeValidator:
    """Numbers are taken as text where YAML may have read `2` for "2"; nothing else is."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise wrong(want)
        return str(value)

    return BeforeValidator(check)


def memory_bytes(quantity: str) -> int:
    """Bytes of a Kubernetes memory quantity such as `64Gi`.

    Raises:
        ValueError: The text is no such quantity.
    """
    match = _MEMORY.fullmatch(quantity)
    if not match:
        raise ValueError(quantity)
    return int(match[1]) * _FACTOR[match[2]]


def memory_mib(quantity: str) -> int:
    """Whole MiB of a Kubernetes memory quantity, rounded down."""
    return memory_bytes(quantity) // 1024**2


def cpu_millis(quantity: str) -> int:
    """Thousandths of a CPU of a Kubernetes CPU quantity such as `2` or `500m`.

    Raises:
        ValueError: The text is no such quantity.
    """
    match = _CPU.fullmatch(quantity)
    if not match or (match[2] and "." in match[1]):
        raise ValueError(quantity)
    return int(match[1]) if match[2] else round(float(match[1]) * 1000)


def duration_seconds(duration: str) -> int:
    """Seconds of a duration such as `30m`."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def _positive(measure: Callable[[str], int], want: str) -> AfterValidator:
    def check(value: str) -> str:
        try:
            amount = measure(value)
        except ValueError:
            raise wrong(want) from None
        if amount <= 0:
            raise wrong(want)
        return value

    return AfterValidator(check)


def _whole_number(value: Any) -> Any:
    # `true` is 1 to Python, and 2.0 a whole number to pydantic: neither is what a person meant.
    if isinstance(value, bool | float):
        raise wrong("a whole number")
    return value


def nodes_or_percentage(most: int) -> BeforeValidator:
    """A check for a number of nodes from 1 to `most`, or a percentage such as 25%."""

    def check(value: Any) -> Any:
        counts = type(value) is int and 1 <= value <= most
        if counts or (isinstance(value, str) and _PERCENTAGE.fullmatch(value)):
            return value
        raise wrong(f"1 or more nodes, {most} at most, or a percentage from 1% to 100%")

    return BeforeValidator(check)


def _image(value: str) -> str:
    match = _IMAGE.fullmatch(value)
    if not match:
        raise wrong("an image reference such as registry.example/slurm@sha256:…")
    if match["digest"]:
        return value
    if not match["tag"] or not _CONTENT_TAG.fullmatch(match["tag"]):
        raise wrong(
            "an image that cannot change: name@sha256:<digest>, or a content tag that ends in 8 or more hex digits "
            "(`latest`, no tag, and version tags can be moved to other content)"
        )
    return value


def image_revision(reference: str) -> str:
    """What names an image's content in paths and object names: 16 digits of the digest, or the content tag."""
    match = _IMAGE.fullmatch(reference)
    if not match:
        raise ValueError(reference)
    if match["digest"]:
        return match["digest"].removeprefix("sha256:")[:16]
    # A content tag ends in hex digits, so its end identifies it; 40 characters leave room for an object's name.
    return re.sub(r"[^a-z0-9]+", "-", match["tag"].lower())[-40:].strip("-")


def device_count(files: str) -> int:
    """How many device files a pattern such as `/dev/nvidia[0-3,7]` names; 1 without brackets.

    Raises:
        ValueError: The text is no such pattern, or a range runs backwards.
    """
    match = _DEVICES.fullmatch(files)
    if not match:
        raise ValueError(files)
    if match["ranges"] is None:
        return 1
    numbers: set[int] = set()
    for part in match["ranges"].split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
        if int(last or first) < int(first):
            raise ValueError(files)
    return len(numbers)


def _path(value: str) -> str:
    if not re.fullmatch(r"(/[A-Za-z0-9._-]+)+", value) or "/.." in value or "/./" in f"{value}/":
        raise wrong("an absolute path such as /data, without `..` or a slash at the end")
    return value


def _exported_path(value: str) -> str:
    # Version 4 servers, Amazon's EFS among them, export their pseudo root.
    return value if value == "/" else _path(value)


def _relative_path(value: str) -> str:
    try:
        return _path(f"/{value}").removeprefix("/")
    except PydanticCustomError:
        raise wrong("a path inside the volume such as data/2026, without `..` or a slash at either end") from None


def _ssh_public_key(value: str) -> str:
    want = "one line of an OpenSSH public key file, such as: ssh-ed25519 AAAA… name"
    match = _SSH_KEY.fullmatch(value.strip())
    if not match:
        raise wrong(want)
    try:
        blob = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        raise wrong(want) from None
    # The blob repeats the key's type (RFC 4253, 6.6), so a cut or mixed-up line shows.
    if blob[4 : 4 + int.from_bytes(blob[:4], "big")] != match[1].encode() or len(blob) < 32:
        raise wrong(want)
    return value.strip()


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise wrong("an address range such as 192.0.2.0/24") from None


Memory = Annotated[
    str, text_of("a Kubernetes quantity such as 64Gi"), _positive(memory_bytes, "a Kubernetes quantity such as 64Gi")
]
Cpu = Annotated[
    str,
    text_of("a Kubernetes CPU quantity such as 2 or 500m"),
    _positive(cpu_millis, "a Kubernetes CPU quantity such as 2 or 500m"),
]
Duration = Annotated[str, matching(_DURATION, "a duration such as 90s, 30m or 2h")]
SlurmTime = Annotated[
    str,
    text_of("a Slurm time such as 7-00:00:00, 12:00:00, 90 (minutes) or UNLIMITED"),
    matching(_SLURM_TIME, "a Slurm time such as 7-00:00:00, 12:00:00, 90 (minutes) or UNLIMITED"),
]
SlurmAge = Annotated[
    str,
    matching(r"[1-9]\d*(hours|days|months)", "a number of hours, days or months as Slurm writes it, such as 12months"),
]
DnsLabel = Annotated[
    str, matching(_DNS_LABEL, "a DNS label: 1 to 63 lower-case letters, digits and inner hyphens, such as gpu-a")
]
SetName = Annotated[
    str,
    matching(
        r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?",
        "a DNS label: at most 40 lower-case letters, digits and inner hyphens, a letter first, such as gpu-a",
    ),
]
"""Names of our own objects; the CRDs hold to the same rule."""
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
DeviceFiles = Annotated[str, _positive(device_count, "device files below /dev, such as /dev/nvidia[0-7]")]
ChartVersion = Annotated[
    str, matching(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", "one version of a chart, such as v26.7.0, not a range")
]
GresType = Annotated[str, matching(r"[a-z0-9][a-z0-9_]{0,62}", "a GPU type such as h100: lower-case letters, digits")]
UserName = Annotated[
    str,
    matching(
        r"(?!(root|slurm|slurmrest|sshd|nobody|daemon|bin|sys)$)" + names.USER_NAME,
        "a login name of an ordinary user: lower-case letters, digits, `_`, `-`, not a system user",
    ),
]
SshPublicKey = Annotated[str, AfterValidator(_ssh_public_key)]
ImmutableImage = Annotated[str, AfterValidator(_image)]
AbsolutePath = Annotated[str, AfterValidator(_path)]
ExportedPath = Annotated[str, AfterValidator(_exported_path)]
RelativePath = Annotated[str, AfterValidator(_relative_path)]
Cidr = Annotated[str, AfterValidator(_cidr)]
LabelKey = Annotated[str, matching(_LABEL_KEY, "a Kubernetes label key such as example.com/pool")]
LabelValue = Annotated[
    str, matching(_LABEL_VALUE, "a Kubernetes label value: at most 63 letters, digits, `.`, `_`, `-`")
]
HostName = Annotated[str, matching(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?", "a host name or an IP address")]
LdapUri = Annotated[
    str,
    matching(
        r"ldaps?://[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9]\d{0,4})?",
        "ldaps://HOST or ldap://HOST, with a port or without; ldap:// is for StartTLS",
    ),
]
DistinguishedName = Annotated[
    str,
    matching(
        r"[A-Za-z][A-Za-z0-9-]*=[^,=\x00-\x1f]+(,\s*[A-Za-z][A-Za-z0-9-]*=[^,=\x00-\x1f]+)*",
        "a distinguished name such as ou=people,dc=example,dc=org",
    ),
]
LdapFilter = Annotated[
    str, matching(r"\([ -~]+\)", "an LDAP filter in parentheses, such as (objectClass=posixAccount)")
]
Registry = Annotated[
    str, matching(r"[a-z0-9][a-z0-9.-]*(:\d+)?(/[a-z0-9._-]+)*", "a registry and folder such as ghcr.io/example")
]
Version = Annotated[
    str,
    text_of("a version such as 26.4.1"),
    matching(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", "a version such as 26.4.1"),
]
PoolName = Annotated[
    str, matching(r"[A-Za-z0-9]([A-Za-z0-9_]{0,61}[A-Za-z0-9])?", "letters, digits and inner `_`, such as fabric")
]
InterfaceName = Annotated[
    # IFNAMSIZ is 16, with the end of the text.
    str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", "the name of a network interface, such as ibs1f0")
]
DeviceId = Annotated[
    str,
    text_of("four hex digits as lspci -n shows them, such as 15b3"),
    matching(r"[0-9a-f]{4}", "four hex digits as lspci -n shows them, such as 15b3"),
]
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
