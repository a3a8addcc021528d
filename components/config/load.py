"""Reads the configuration from Pulumi, and refuses it as a whole when any of it is wrong."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pulumi
from pulumi.runtime import config as pulumi_config
from pydantic import ValidationError

from components.config.checking import partial
from components.config.checking.problems import Problem, from_validation
from components.config.program import Config
from contract import names


class ConfigurationError(pulumi.RunError):
    """The configuration is wrong; the text lists every problem. Pulumi prints it without a traceback."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        count = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{count} in the configuration; nothing was changed:\n{lines}")


def parse(raw: Mapping[str, Any], secret_keys: Collection[str] = ()) -> Config:
    """The configuration, checked.

    Args:
        raw: All keys of the namespace `pulumi-slurm`, without the prefix.
        secret_keys: Keys of `raw` that are secret in Pulumi: no value below them is ever shown.

    Raises:
        ConfigurationError: With every problem of the configuration.
    """
    wrong: list[Problem] = []
    try:
        config = Config.model_validate(dict(raw))
    except ValidationError as failure:
        wrong = from_validation(failure, Config)
        config = partial.parsed(Config, raw)
    wrong += partial.problems(config, raw)
    if wrong:
        hidden = (replace(problem, got="[secret]") if problem.path[0] in secret_keys else problem for problem in wrong)
        once = {str(problem): problem for problem in hidden}
        # The cause would repeat the input, secrets with it.
        raise ConfigurationError([once[text] for text in sorted(once)]) from None
    return config


def _value(text: Any) -> Any:
    """Return a value of Pulumi's config: structured ones come as JSON text, scalars as they are."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def from_pulumi() -> Config:
    """The stack's configuration. All keys of the namespace are read, since Pulumi itself ignores unknown ones.

    Raises:
        ConfigurationError: With every problem of the configuration.
    """
    prefix = f"{names.PROJECT}:"
    everything = {**pulumi_config.get_config_env(), **pulumi_config.CONFIG.get()}
    ours = {key.removeprefix(prefix): _value(value) for key, value in everything.items() if key.startswith(prefix)}
    secret = {key for key in ours if pulumi_config.is_config_secret(f"{prefix}{key}")}
    return parse(ours, secret)
