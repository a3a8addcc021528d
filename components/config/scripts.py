"""Configuration of the site's scripts that Slurm starts: before and after jobs and tasks, and to check a node."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from components.config.model import Model, NotParsedError, setting
from components.config.rule import Violation, named_twice, rule
from components.config.values import script_text
from components.config.values.quantities import Duration, duration_seconds
from components.config.values.script_text import ScriptFile, ScriptName, ScriptText
from contract.site_scripts import END_SECONDS, Kind

_IN_THE_JOB = (Kind.TASK_PROLOG, Kind.TASK_EPILOG)


class Script(Model):
    """A script of the site. It has its text or a path."""

    name: ScriptName = setting("Its name in reasons and logs.")
    text: ScriptText | None = setting("The script, from its `#!` line on.", default=None)
    path: ScriptFile | None = setting("Its file in the project, in place of text.", default=None)
    time_limit: Duration = setting(
        "Time after which it is killed, and counts as failed.", unit="s, m or h", default="30s"
    )

    @property
    def content(self) -> str:
        """The script, wherever it was written."""
        return self.text or self.path or ""

    @property
    def source(self) -> str:
        """The key that the script came by."""
        return "text" if self.path is None else "path"

    @property
    def seconds(self) -> int:
        """Its time limit in seconds."""
        return duration_seconds(self.time_limit)

    @rule
    def _source(self) -> Iterator[Violation]:
        given = [key for key in ("text", "path") if key in self.given]
        if len(given) != 1:
            yield Violation(want="exactly one of text and path", got=given or None)


class HealthScript(Script):
    """A script that checks a node."""

    time_limit: Duration = setting(
        "Time after which it is killed, and counts as failed. The node's next check comes after health.interval.",
        unit="s, m or h",
        default="10s",
    )


class Scripts(Model):
    """Scripts of the site, each kind in its order. docs/scripts.md says when and where each runs."""

    prolog: list[Script] = setting("Before a job, on each of its nodes: as root, outside of the jail.", factory=list)
    epilog: list[Script] = setting("After a job, on each of its nodes: as root, outside of the jail.", factory=list)
    task_prolog: list[Script] = setting("Before each task, inside the job and as its user.", factory=list)
    task_epilog: list[Script] = setting("After each task, inside the job and as its user.", factory=list)
    prolog_slurmctld: list[Script] = setting("Before a job, in the pod of slurmctld, as its user.", factory=list)
    epilog_slurmctld: list[Script] = setting("After a job, in the pod of slurmctld, as its user.", factory=list)
    health_check: list[HealthScript] = setting(
        "With each periodic check of a node, before ours: as root, outside of the jail.", factory=list
    )

    @property
    def by_kind(self) -> Mapping[Kind, Sequence[Script]]:
        """The scripts of each kind, in their order."""
        fields = type(self).model_fields
        # Of a configuration that is partly wrong, kinds may be missing.
        return {Kind(str(info.alias)): self.__dict__[name] for name, info in fields.items() if name in self.__dict__}

    def seconds(self, kind: Kind) -> int:
        """The longest time that all scripts of a kind may take together."""
        return sum(script.seconds + END_SECONDS for script in self.by_kind.get(kind, []))

    @rule
    def _names(self) -> Iterator[Violation]:
        for kind, scripts in self.by_kind.items():
            yield from named_twice(scripts, kind)

    @rule
    def _interpreters(self) -> Iterator[Violation]:
        for kind, index, script in self._valid():
            if kind not in _IN_THE_JOB and (want := script_text.wrong_interpreter(script.content)):
                yield Violation(kind, index, script.source, want=want)

    @rule
    def _size(self) -> Iterator[Violation]:
        valid = list(self._valid())
        texts = {f"{kind}.{index}": script.content for kind, index, script in valid}
        if want := script_text.too_large(texts):
            kind, index, script = max(valid, key=lambda row: len(row[2].content))
            yield Violation(kind, index, script.source, want=want)

    def _valid(self) -> Iterator[tuple[Kind, int, Script]]:
        """The scripts whose text is right, with their places."""
        for kind, scripts in self.by_kind.items():
            for index, script in enumerate(scripts):
                with suppress(NotParsedError):
                    if script.content:
                        yield kind, index, script
