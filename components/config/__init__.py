"""The configuration: typed models of everything that a stack file may say."""

from components.config.load import ConfigurationError, from_pulumi, parse
from components.config.program import Config

__all__ = ["Config", "ConfigurationError", "from_pulumi", "parse"]
