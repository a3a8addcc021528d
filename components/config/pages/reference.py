"""The reference of the configuration, docs/config.md, made from its models (tests/unit/golden_files.py writes it)."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from components.config.model import model_of
from components.config.pods.pod_options import PlacedPodOptions, PodOptions
from components.config.program import Config
from contract import names

_HEAD = f"""# Every configuration key

Made from the models in `components/config` by `.venv/bin/python -m tests.unit.golden_files`; a test keeps it current.
Set a key with `pulumi config set --path '{names.PROJECT}:nodeSets[0].replicas' 3` or in the stack's file. `[]` stands
for the entries of a list. Unknown keys are refused, at any depth.

| key | default | meaning |
|---|---|---|
"""


_PODS = """
## Keys of pods

Each `pod` of the table above has these keys. `nodeSets[].pod` is without `nodeSelector` and `tolerations`, since the
node set has them.

| key | default | meaning |
|---|---|---|
"""


def _is_list(annotation: Any) -> bool:
    return any(get_origin(part) is list for part in (annotation, *get_args(annotation)))


def _value(default: Any) -> str:
    if isinstance(default, Enum):
        return f"`{default.value}`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, list):
        return f"`[{', '.join(default)}]`" if default else "none"
    return f"`{default}`" if default not in (None, {}) else "none"


def _default(info: FieldInfo, instance: BaseModel | None, name: str) -> str:
    """The default as the page shows it. The default of a parent may set another one than the nested class does."""
    if instance is not None:
        return _value(getattr(instance, name))
    if info.is_required():
        return "**required**"
    default = info.get_default(call_default_factory=True, validated_data={})
    assert default is not PydanticUndefined
    return _value(default)


def rows(model: type[BaseModel], prefix: str, instance: BaseModel | None = None) -> Iterator[str]:
    """Lines of the table.

    Args:
        model: The model whose fields are listed.
        prefix: Path of the model.
        instance: The model's values when nothing is configured; None where something must be.
    """
    for name, info in model.model_fields.items():
        path = f"{prefix}{info.alias}"
        annotation: Any = info.annotation
        inner = model_of(annotation)
        if inner is not None and issubclass(inner, PodOptions):
            yield f"| **`{path}`** | | {info.description} [Keys of pods](#keys-of-pods) |"
            continue
        if inner is None:
            extra = info.json_schema_extra
            unit = f" ({extra['unit']})" if isinstance(extra, dict) else ""
            yield f"| `{path}` | {_default(info, instance, name)} | {info.description}{unit} |"
            continue
        shown = "**required**" if info.is_required() else ""
        yield f"| **`{path}`** | {shown} | {info.description} |"
        default = None if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
        nested = default if isinstance(default, BaseModel) else None
        yield from rows(inner, f"{path}[]." if _is_list(info.annotation) else f"{path}.", nested)


def text() -> str:
    """The whole page."""
    pods = rows(PlacedPodOptions, "pod.", PlacedPodOptions())
    return _HEAD + "\n".join(rows(Config, "")) + "\n" + _PODS + "\n".join(pods) + "\n"
