"""A warning of windows that are past: no update would begin any more, and nobody might notice.

It is no error. The stack's file stays right in everything else when the date passes, and its next change must go on.
"""

import datetime

import pulumi

from components.config import Config


def past(config: Config, now: datetime.datetime) -> list[str]:
    """Return a sentence for each window that never opens again, with its path."""
    rows = [(index, node_set.update.window) for index, node_set in enumerate(config.node_sets)]
    gone = [(index, window) for index, window in rows if window is not None and window.is_past(now)]
    told = "is past, so that no update of its nodes begins: set a later one, or leave it out"
    return [f"nodeSets[{index}].update.window.start: {window.start} {told}" for index, window in gone]


def run(config: Config) -> None:
    """Warn of windows that are past.

    Args:
        config: The configuration: `nodeSets`.
    """
    for sentence in past(config, datetime.datetime.now(datetime.UTC)):
        pulumi.log.warn(sentence)
