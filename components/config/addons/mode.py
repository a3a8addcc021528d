"""Modes of addons: software of other makers that the cluster uses."""

from enum import StrEnum


class AddonMode(StrEnum):
    """Answers to who installs an addon: the program, somebody before it, or nobody."""

    INSTALL = "install"
    EXISTING = "existing"
    OFF = "off"


class Provider(StrEnum):
    """Source of a part of the Kubernetes nodes' software: an addon, or the nodes' images."""

    OPERATOR = "operator"
    PREINSTALLED = "preinstalled"
