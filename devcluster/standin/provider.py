"""The provider itself: what the engine asks, put together from the decisions and the calls of this package."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from pulumi.provider.experimental import provider as sdk
from pulumi.provider.experimental.property_value import PropertyValue

from devcluster.standin import (
    VERSION,
    api,
    diff,
    inputs,
    kinds,
    kubeconfig,
    ownership,
    replacement,
    settings,
    values,
    waiting,
)
from devcluster.standin.engine_log import EngineLog
from devcluster.standin.kinds import Kind, Manifest
from devcluster.standin.values import Properties
from devcluster.standin.writes import Writer, delete

_INPUTS: Final = "__inputs"
_API_VERSION: Final = "__initialApiVersion"
_MANAGER: Final = "__fieldManager"


class Refused(Exception):
    """An operation that changed nothing failed; the message is for the user."""


class PartialFailure(Exception):
    """The object is in the cluster, but not as it should be: the engine keeps it in the state and tries again."""

    def __init__(
        self, identity: str, message: str, properties: Properties, reasons: list[str], read_inputs: Properties | None
    ) -> None:
        """Everything that the engine stores.

        Args:
            identity: the id of the resource.
            message: for the user.
            properties: the state.
            reasons: shown below the message.
            read_inputs: the inputs, when the object was only read.
        """
        super().__init__(message)
        self.identity = identity
        self.properties = properties
        self.reasons = reasons
        self.read_inputs = read_inputs


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """What Pulumi's state holds of one object."""

    inputs: Manifest
    live: Manifest
    manager: str | None

    @classmethod
    def parse(cls, properties: Mapping[str, Any]) -> State:
        """Takes the stored properties apart, without secretness."""
        stored = values.plain_map(properties)
        declared = stored.pop(_INPUTS, None) or {}
        manager = stored.pop(_MANAGER, None)
        stored.pop(_API_VERSION, None)
        return cls(inputs.normalized(declared), stored, manager)


def checkpoint(declared: Manifest, live: Manifest, source: Mapping[str, Any], manager: str) -> Properties:
    """What goes into the state: the live object, the inputs, and the field manager.

    Args:
        declared: the inputs.
        live: the object.
        source: the properties that know what is secret.
        manager: the field manager to apply under next time.
    """
    shown = {**live, "metadata": {key: value for key, value in live["metadata"].items() if key != "managedFields"}}
    state = values.with_secrets_of(values.wrap_map(shown), source)
    wrapped = values.with_secrets_of(values.wrap_map(declared), source)
    state[_INPUTS] = PropertyValue(wrapped)
    state[_API_VERSION] = values.wrap(declared.get("apiVersion", live.get("apiVersion")))
    state[_MANAGER] = values.wrap(manager)
    return state


class KubernetesProvider(sdk.Provider):
    """The stand-in."""

    def __init__(self, log: EngineLog) -> None:
        """Does nothing until it is configured.

        Args:
            log: the engine's.
        """
        self._log = log
        self._settings = settings.read({})
        self._api: api.Api | None = None
        self._unreachable = "the provider is not configured"
        self._namespace = "default"
        self._cancelled = asyncio.Event()
        self._crd_scopes: dict[tuple[str, str], bool] = {}

    # -- the provider resource ------------------------------------------------------------------------------------

    async def check_config(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Takes the arguments as they are."""
        return sdk.CheckResponse(inputs=request.new_inputs)

    async def diff_config(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Says whether the arguments mean another cluster now."""
        change = settings.change(values.plain_map(request.old_state), values.plain_map(request.new_inputs))
        return sdk.DiffResponse(
            changes=bool(change.changed), diffs=list(change.changed), replaces=list(dict.fromkeys(change.replaces))
        )

    async def configure(self, request: sdk.ConfigureRequest) -> sdk.ConfigureResponse:
        """Connects. A cluster that cannot be reached is no error yet: a preview can do without."""
        self._settings = settings.read(request.variables)
        try:
            config = kubeconfig.load(self._settings.kubeconfig)
            connection = await asyncio.to_thread(
                kubeconfig.connection, config, self._settings.context, self._settings.cluster
            )
            self._namespace = self._settings.namespace or connection.namespace
            client = api.Api(connection, f"pulumi-kubernetes-standin/{VERSION}")
            await client.probe()
            self._api, self._unreachable = client, ""
        except (kubeconfig.KubeconfigError, api.Unreachable, api.ApiError) as error:
            self._api, self._unreachable = None, str(error)
        return sdk.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def cancel(self) -> None:
        """Ends every wait."""
        self._cancelled.set()

    def _reached(self) -> api.Api:
        if self._api is None:
            raise api.Unreachable(f"configured Kubernetes cluster is unreachable: {self._unreachable}")
        return self._api

    # -- what the inputs are --------------------------------------------------------------------------------------

    async def check(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Fills in names and namespaces."""
        if self._api is None and self._settings.skip_update_unreachable:
            await self._log.warn(request.urn, "Cluster is unreachable, and skipUpdateUnreachable is set: skipping")
            return sdk.CheckResponse(inputs=request.old_inputs)
        _refuse(request.type)
        kind = kinds.from_token(request.type)
        declared = values.plain_map(request.new_inputs)
        patch = kinds.is_patch(request.type, declared)
        if patch:
            kind = Kind(kind.group, kind.version, kind.name.removesuffix("Patch"))
            if not kinds.metadata_of(declared).get("name"):
                raise ValueError("patch resources require the `.metadata.name` field to be set")
            if not self._settings.server_side_apply:
                raise ValueError("patch resources require the provider's `enableServerSideApply`")
        manifest = inputs.normalized(inputs.typed(declared, kind))
        self._remember_scope(manifest)
        manifest = inputs.named(manifest, values.plain_map(request.old_inputs), request.name, request.random_seed)
        manifest = inputs.placed(manifest, self._namespace, await self._namespaced(kind))
        return sdk.CheckResponse(inputs=values.with_secrets_of(values.wrap_map(manifest), request.new_inputs))

    def _remember_scope(self, manifest: Manifest) -> None:
        spec = manifest.get("spec")
        if manifest.get("kind") == "CustomResourceDefinition" and isinstance(spec, dict):
            names = spec.get("names")
            if isinstance(names, dict):
                self._crd_scopes[str(spec.get("group")), str(names.get("kind"))] = spec.get("scope") == "Namespaced"

    async def _namespaced(self, kind: Kind) -> bool:
        if kind.namespaced is not None:
            return kind.namespaced
        declared = self._crd_scopes.get((kind.group, kind.name))
        if declared is not None:
            return declared
        try:
            return (await self._reached().resource(kind)).namespaced
        except (api.KindMissing, api.Unreachable):
            return True  # most are; the create corrects it

    # -- what has changed -----------------------------------------------------------------------------------------

    async def diff(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Compares the live object, as far as it was declared, with what is declared now."""
        state = State.parse(request.old_state)
        new = inputs.normalized(values.plain_map(request.new_inputs))
        kind = kinds.of(new)
        namespaced = await self._namespaced(kind)
        old = inputs.pruned(state.live, state.inputs)
        old, new = (_in_namespace(manifest, namespaced) for manifest in (old, new))
        old.setdefault("apiVersion", new.get("apiVersion"))
        old.setdefault("kind", new.get("kind"))
        if kinds.name_of(new):
            old["metadata"]["name"] = kinds.name_of(state.live)
        frozen = replacement.fields(kind, new, self._settings, kinds.is_patch(request.type, new))
        found = diff.differences(old, new, frozen, request.ignore_changes)
        replaces = [difference.written for difference in found if difference.replaces]
        return sdk.DiffResponse(
            changes=bool(found),
            replaces=replaces,
            delete_before_replace=bool(replaces) and diff.must_delete_first(new, _in_namespace(state.live, namespaced)),
            detailed_diff={difference.written: _property_diff(difference) for difference in found},
        )

    # -- what is done ---------------------------------------------------------------------------------------------

    def _writer(self, token: str, manifest: Manifest, in_state: str | None, preview: bool) -> Writer:
        return Writer(
            api=self._reached(),
            settings=self._settings,
            manager=ownership.manager_name(manifest, in_state),
            patch=kinds.is_patch(token, manifest),
            preview=preview,
        )

    async def _can_preview(self, manifest: Manifest) -> bool:
        if self._api is None or values.has_unknown(manifest):
            return False
        try:
            await self._api.resource(kinds.of(manifest))
        except (api.KindMissing, api.Unreachable):
            return False
        return True

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        """Creates an object and waits until it is ready."""
        manifest = values.plain_map(request.properties)
        if request.preview and not (
            self._settings.server_side_apply
            and not kinds.is_patch(request.type, manifest)
            and await self._can_preview(manifest)
        ):
            return sdk.CreateResponse("", request.properties)
        writer = self._writer(request.type, manifest, None, request.preview)

        async def tell(line: str) -> None:
            await self._log.status(request.urn, line)

        try:
            live = await writer.create(manifest, tell)
        except (api.ApiError, api.KindMissing) as error:
            if request.preview and isinstance(error, api.ApiError) and _hidden_in_preview(error):
                return sdk.CreateResponse("", request.properties)
            raise Refused(_create_message(request.urn, error)) from error
        if request.preview:
            live.pop("status", None)
            return sdk.CreateResponse("", checkpoint(manifest, live, request.properties, writer.manager))
        if manifest.get("kind") == "CustomResourceDefinition":
            self._reached().forget_kinds()
        waiter = self._waiter(request.urn, request.timeout, manifest)
        try:
            live = await waiter.until_ready(manifest, live, None)
        except waiting.NotReady as error:
            raise _partial(
                error,
                f"resource {request.urn!r} was successfully created, but the Kubernetes API server reported that it "
                f"failed to fully initialize or become live: {error}",
                checkpoint(manifest, error.live, request.properties, writer.manager),
            ) from error
        except (ValueError, api.ApiError, api.Unreachable) as error:
            raise PartialFailure(
                kinds.resource_id(live),
                f"resource {request.urn!r} was created, but waiting for it failed: {error}",
                checkpoint(manifest, live, request.properties, writer.manager),
                [str(error)],
                None,
            ) from error
        return sdk.CreateResponse(
            kinds.resource_id(live), checkpoint(manifest, live, request.properties, writer.manager)
        )

    def _waiter(self, urn: str, timeout: float, manifest: Manifest) -> waiting.Waiter:
        async def tell(line: str) -> None:
            await self._log.status(urn, line)

        annotated = kinds.annotation(manifest, "timeoutSeconds")
        seconds = timeout or (float(annotated) if annotated.isdigit() else waiting.DEFAULT_SECONDS)
        return waiting.Waiter(self._reached(), tell, self._cancelled, seconds)

    async def update(self, request: sdk.UpdateRequest) -> sdk.UpdateResponse:
        """Changes an object in place and waits until it is ready again."""
        manifest = inputs.normalized(values.plain_map(request.news))
        if request.preview and not await self._can_preview(manifest):
            return sdk.UpdateResponse(request.news)
        state = State.parse(request.olds)
        writer = self._writer(request.type, manifest, state.manager, request.preview)
        identity = kinds.resource_id(state.live)
        try:
            live = await self._update(writer, state, manifest, request)
        except api.ApiError as error:
            if request.preview and error.code == 403:
                return sdk.UpdateResponse(request.news)
            now = None if request.preview else await self._read_again(state.live)
            if now is None:
                raise Refused(f"update of resource {request.urn!r} failed: {error}") from error
            raise PartialFailure(
                identity,
                f'the Kubernetes API server reported that "{identity}" failed to fully initialize or become live: '
                f"{error}",
                checkpoint(manifest, now, request.news, writer.manager),
                [str(error)],
                None,
            ) from error
        except waiting.NotReady as error:
            raise _partial(
                error,
                f'the Kubernetes API server reported that "{identity}" failed to fully initialize or become live: '
                f"{error}",
                checkpoint(manifest, error.live, request.news, writer.manager),
            ) from error
        return sdk.UpdateResponse(checkpoint(manifest, live, request.news, writer.manager))

    async def _update(self, writer: Writer, state: State, manifest: Manifest, request: sdk.UpdateRequest) -> Manifest:
        ignored = [diff.parse_names(path) for path in request.ignore_changes]
        old_inputs = inputs.pruned(state.live, state.inputs)
        before, live = await writer.update(manifest, old_inputs, ignored, kinds.name_of(state.live))
        if request.preview:
            return live
        if manifest.get("kind") == "CustomResourceDefinition":
            self._reached().forget_kinds()
        waiter = self._waiter(request.urn, request.timeout, manifest)
        live = await waiter.until_ready(manifest, live, before)
        if state.manager and state.manager != writer.manager and self._settings.server_side_apply:
            await dataclasses.replace(writer, manager=state.manager).relinquish(live)
        return live

    async def _read_again(self, live: Manifest) -> Manifest | None:
        try:
            return await self._reached().get(live)
        except (api.ApiError, api.Unreachable):
            return None

    async def delete(self, request: sdk.DeleteRequest) -> None:
        """Deletes an object and waits until it is gone."""
        state = State.parse(request.properties)
        if self._api is None:
            if self._settings.delete_unreachable:
                await self._log.warn(request.urn, "the cluster is unreachable, and deleteUnreachable is set")
                return
            raise Refused(_unreachable(self._unreachable))
        try:
            if kinds.is_patch(request.type, state.inputs):
                await self._writer(request.type, state.inputs, state.manager, False).relinquish(state.live)
                return
            gone = await delete(self._api, state.live, state.inputs)
            if gone is not None:
                await self._waiter(request.urn, request.timeout, state.inputs).until_gone(state.inputs, gone)
        except api.KindMissing:
            return  # its CustomResourceDefinition is gone, and so is the object
        except waiting.NotReady as error:
            raise _partial(
                error, str(error), checkpoint(state.inputs, error.live, request.properties, state.manager or "")
            ) from error
        except api.ApiError as error:
            raise Refused(f"deletion of resource {request.urn!r} failed: {error}") from error

    # -- what is there --------------------------------------------------------------------------------------------

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        """Reads an object for a refresh, an import or a `get`."""
        if self._api is None:
            if self._settings.delete_unreachable:
                return sdk.ReadResponse(resource_id="")
            if self._settings.skip_update_unreachable:
                return sdk.ReadResponse(request.resource_id, request.properties, request.inputs)
            raise Refused(f"failed to read resource state: {_unreachable(self._unreachable)}")
        _refuse(request.type)
        state = State.parse(request.properties)
        declared = inputs.normalized(values.plain_map(request.inputs))
        first_read = not declared.get("kind")
        kind = kinds.of(declared) if not first_read else self._kind_to_read(request.type, state)
        namespace, name = kinds.split_id(request.resource_id)
        if not name:
            raise Refused(f"cannot read {request.resource_id!r}: an id is `namespace/name` or `name`")
        target = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "namespace": namespace or kinds.namespace_of(declared)},
        }
        try:
            live = await self._api.get(target)
        except api.KindMissing:
            return sdk.ReadResponse(resource_id="")
        except api.ApiError as error:
            if error.code == 404:
                return sdk.ReadResponse(resource_id="")
            raise Refused(f"reading resource {request.urn!r} failed: {error}") from error
        live_inputs = inputs.imported(live) if first_read else inputs.pruned(live, declared)
        source = request.inputs or request.properties
        manager = ownership.manager_name(declared, state.manager)
        state_now = checkpoint(live_inputs, live, source, manager)
        inputs_now = values.with_secrets_of(values.wrap_map(live_inputs), source)
        verdict = await waiting.now_ready(self._api, declared, live) if not first_read else None
        if verdict is not None and not verdict.ready:
            raise PartialFailure(
                request.resource_id,
                f"Resource '{name}' was created but failed to initialize",
                state_now,
                list(verdict.lacking),
                inputs_now,
            )
        return sdk.ReadResponse(request.resource_id, state_now, inputs_now)

    def _kind_to_read(self, token: str, state: State) -> Kind:
        if state.live.get("kind"):
            return kinds.of(state.live)
        kind = kinds.from_token(token)
        return Kind(kind.group, kind.version, kind.name.removesuffix("Patch"))

    # -- what is refused ------------------------------------------------------------------------------------------

    async def invoke(self, request: sdk.InvokeRequest) -> sdk.InvokeResponse:
        """Refuses every function: they render Helm charts, kustomizations and YAML files."""
        raise Refused(kinds.refusal(request.tok) or f"the stand-in provider does not have the function {request.tok}")

    async def construct(self, request: sdk.ConstructRequest) -> sdk.ConstructResponse:
        """Refuses every component."""
        raise Refused(kinds.refusal(request.resource_type) or f"the stand-in provider has no {request.resource_type}")

    async def get_schema(self, request: sdk.GetSchemaRequest) -> sdk.GetSchemaResponse:
        """Refuses: the schema comes with the official plugin."""
        raise Refused("the stand-in provider has no schema; import with `--generate-code=false`")


def _refuse(token: str) -> None:
    refusal = kinds.refusal(token)
    if refusal:
        raise Refused(refusal)


def _in_namespace(manifest: Manifest, namespaced: bool) -> Manifest:
    metadata = dict(kinds.metadata_of(manifest))
    metadata["namespace"] = (metadata.get("namespace") or "default") if namespaced else ""
    return {**manifest, "metadata": metadata}


def _hidden_in_preview(error: api.ApiError) -> bool:
    if error.code == 403 or error.namespace_missing or error.reason == "AlreadyExists":
        return True
    return error.code == 400 and "dry run" in str(error).lower().replace("dryrun", "dry run")


def _create_message(urn: str, error: Exception) -> str:
    if isinstance(error, api.KindMissing):
        return (
            f"creation of resource {urn!r} with kind {error.kind} failed because the Kubernetes API server reported "
            "that the apiVersion for this resource does not exist. Verify that any required CRDs have been created: "
            f"{error}"
        )
    return f"resource {urn!r} was not successfully created by the Kubernetes API server: {error}"


def _unreachable(reason: str) -> str:
    return (
        f"configured Kubernetes cluster is unreachable: {reason}. If the cluster was deleted, rerun with "
        'PULUMI_K8S_DELETE_UNREACHABLE="true" to remove its resources from the state'
    )


def _partial(error: waiting.NotReady, message: str, properties: Properties) -> PartialFailure:
    return PartialFailure(kinds.resource_id(error.live), message, properties, [message, *error.reasons], None)


def _property_diff(difference: diff.Difference) -> sdk.PropertyDiff:
    plain = {
        diff.Change.ADD: sdk.PropertyDiffKind.ADD,
        diff.Change.DELETE: sdk.PropertyDiffKind.DELETE,
        diff.Change.UPDATE: sdk.PropertyDiffKind.UPDATE,
    }
    replacing = {
        diff.Change.ADD: sdk.PropertyDiffKind.ADD_REPLACE,
        diff.Change.DELETE: sdk.PropertyDiffKind.DELETE_REPLACE,
        diff.Change.UPDATE: sdk.PropertyDiffKind.UPDATE_REPLACE,
    }
    table = replacing if difference.replaces else plain
    return sdk.PropertyDiff(table[difference.change], input_diff=difference.change is diff.Change.DELETE)
