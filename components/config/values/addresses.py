"""Addresses, hosts, and devices of a network."""

import ipaddress
from typing import Annotated

from pydantic import AfterValidator

from components.config.values.validation import matching, text_of, wrong


def _cidr(value: str) -> str:
    try:
        return str(ipaddress.ip_network(value))
    except ValueError:
        raise wrong("an address range such as 192.0.2.0/24") from None


Cidr = Annotated[str, AfterValidator(_cidr)]
HostName = Annotated[str, matching(r"[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?", "a host name or an IP address")]
InterfaceName = Annotated[
    # IFNAMSIZ is 16, with the end of the text.
    str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", "the name of a network interface, such as ibs1f0")
]
DeviceId = Annotated[
    str,
    text_of("four hex digits as lspci -n shows them, such as 15b3"),
    matching(r"[0-9a-f]{4}", "four hex digits as lspci -n shows them, such as 15b3"),
]
