"""Container images, and versions of charts."""

import re
from typing import Annotated

from pydantic import AfterValidator

from components.config.values.validation import matching, text_of, wrong

_CONTENT_TAG = re.compile(r"(?:[a-z0-9._-]*[._-])?[0-9a-f]{8,64}")
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]*(?::\d+)?(?:/[a-z0-9._-]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


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
    """Short id of an image's content for paths and object names: 16 digits of the digest, or the content tag."""
    match = _IMAGE.fullmatch(reference)
    if not match:
        raise ValueError(reference)
    if match["digest"]:
        return match["digest"].removeprefix("sha256:")[:16]
    # A content tag ends in hex digits, so its end identifies it; 40 characters leave room for an object's name.
    return re.sub(r"[^a-z0-9]+", "-", match["tag"].lower())[-40:].strip("-")


ChartVersion = Annotated[
    str, matching(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", "one version of a chart, such as v26.7.0, not a range")
]
ImmutableImage = Annotated[str, AfterValidator(_image)]
Registry = Annotated[
    str, matching(r"[a-z0-9][a-z0-9.-]*(:\d+)?(/[a-z0-9._-]+)*", "a registry and folder such as ghcr.io/example")
]
Version = Annotated[
    str,
    text_of("a version such as 26.4.1"),
    matching(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,62}", "a version such as 26.4.1"),
]
