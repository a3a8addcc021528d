"""Files of `slurm.files` that Slurm takes: Lua scripts with all functions that their plugin wants, and a topology."""

from __future__ import annotations

_SUBMIT = """
function slurm_job_submit(job, partitions, uid)
{}  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
  return slurm.SUCCESS
end
"""
_CLI_FILTER = """
function slurm_cli_setup_defaults(options, early)
  return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset)
{}  return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job, step)
  return slurm.SUCCESS
end
"""
_TREE = """
- topology: racks
  cluster_default: true
  tree:
    switches:
      - switch: rack1
        nodes: {}
"""


def job_submit(lines: str = "") -> str:
    """Return a job_submit.lua; `lines` look at each new job first."""
    return _SUBMIT.format(lines)


def cli_filter(lines: str = "") -> str:
    """Return a cli_filter.lua; `lines` look at the options of each command first."""
    return _CLI_FILTER.format(lines)


def tree(nodes: str) -> str:
    """Return a topology.yaml with one switch for these nodes."""
    return _TREE.format(nodes)
