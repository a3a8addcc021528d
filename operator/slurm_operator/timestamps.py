"""Times in statuses and messages."""

import datetime


def timestamp(moment: datetime.datetime) -> str:
    """Write a time as Kubernetes does."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
