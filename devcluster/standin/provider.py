"""The provider: answers the engine with the decisions and calls of this package."""

from __future__ import annotations

import asyncio
import dataclasses

from pulumi.provider.experimental import provider as sdk

from devcluster.standin import api, cluster, failures, settings
from devcluster.standin.decisions import checkpoint, diff, inputs, kinds, ownership, replacement, values
from devcluster.standin.decisions.kinds import Manifest
from devcluster.standin.engine_log import EngineLog
from devcluster.standin.waiting import wait
from devcluster.standin.writes import Writer, delete


class KubernetesProvider(sdk.Provider):
    """The stand-in for the official provider, in the form that Pulumi's SDK serves."""

    def __init__(self, log: EngineLog) -> None:
        """Does nothing until it is configured.

        Args:
            log: the engine's.
        """
        self._log = log
        self._cluster = cluster.Cluster(settings.read({}))
        self._cancelled = asyncio.Event()

    # -- the provider resource ------------------------------------------------------------------------------------

    async def check_config(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Takes the arguments as they are."""
        return sdk.CheckResponse(inputs=request.new_inputs)

    async def diff_config(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Says whether the arguments mean another cluster now."""
        changed, replaces = settings.change(values.plain_map(request.old_state), values.plain_map(request.new_inputs))
        return sdk.DiffResponse(changes=bool(changed), diffs=changed, replaces=replaces)

    async def configure(self, request: sdk.ConfigureRequest) -> sdk.ConfigureResponse:
        """Connects. An unreachable cluster is not an error yet: a preview can do without."""
        self._cluster = await cluster.Cluster.connect(settings.read(request.variables))
        return sdk.ConfigureResponse(accept_secrets=True, supports_preview=True)

    async def cancel(self) -> None:
        """Ends every wait."""
        self._cancelled.set()

    # -- what the inputs are --------------------------------------------------------------------------------------

    async def check(self, request: sdk.CheckRequest) -> sdk.CheckResponse:
        """Fills in namespaces."""
        _refuse(request.type)
        kind = kinds.from_token(request.type)
        declared = values.plain_map(request.new_inputs)
        manifest = inputs.normalized(inputs.typed(declared, kind))
        self._cluster.remember_scope(manifest)
        inputs.check_name(manifest)
        manifest = inputs.placed(manifest, self._cluster.namespace, await self._cluster.namespaced(kind))
        return sdk.CheckResponse(inputs=values.with_secrets_of(values.wrap_map(manifest), request.new_inputs))

    # -- what has changed -----------------------------------------------------------------------------------------

    async def diff(self, request: sdk.DiffRequest) -> sdk.DiffResponse:
        """Compares the live object, as far as it was declared, with what is declared now."""
        if request.ignore_changes:
            raise failures.Refused("ignoreChanges: the stand-in provider does not have it: use the official plugin")
        stored = checkpoint.Checkpoint.parse(request.old_state)
        new = inputs.normalized(values.plain_map(request.new_inputs))
        kind = kinds.of(new)
        namespaced = await self._cluster.namespaced(kind)
        old = inputs.pruned(stored.live, stored.inputs)
        old, new = (_in_namespace(manifest, namespaced) for manifest in (old, new))
        old.setdefault("apiVersion", new.get("apiVersion"))
        old.setdefault("kind", new.get("kind"))
        if kinds.name_of(new):
            old["metadata"]["name"] = kinds.name_of(stored.live)
        frozen = replacement.fields(kind, new, self._cluster.settings)
        different = diff.differences(old, new, frozen)
        replaces = [difference.written for difference in different if difference.replaces]
        in_the_way = diff.must_delete_first(new, _in_namespace(stored.live, namespaced))
        return sdk.DiffResponse(
            changes=bool(different),
            replaces=replaces,
            delete_before_replace=bool(replaces) and in_the_way,
            detailed_diff={difference.written: _property_diff(difference) for difference in different},
        )

    # -- what is done ---------------------------------------------------------------------------------------------

    def _writer(self, manifest: Manifest, in_state: str | None, preview: bool) -> Writer:
        return Writer(
            api=self._cluster.reached(),
            settings=self._cluster.settings,
            manager=ownership.manager_name(manifest, in_state),
            preview=preview,
        )

    async def create(self, request: sdk.CreateRequest) -> sdk.CreateResponse:
        """Creates an object and waits until it is ready."""
        manifest = values.plain_map(request.properties)
        if request.preview and not await self._cluster.can_try(kinds.of(manifest), manifest):
            return sdk.CreateResponse("", request.properties)
        writer = self._writer(manifest, None, request.preview)

        async def tell(line: str) -> None:
            await self._log.status(request.urn, line)

        try:
            live = await writer.create(manifest, tell)
        except (api.ApiError, api.KindMissing) as error:
            if request.preview and isinstance(error, api.ApiError) and failures.is_hidden_in_preview(error):
                return sdk.CreateResponse("", request.properties)
            raise failures.Refused(failures.creation(request.urn, error)) from error
        if request.preview:
            live.pop("status", None)
            return sdk.CreateResponse("", checkpoint.make(manifest, live, request.properties, writer.manager))
        if manifest.get("kind") == "CustomResourceDefinition":
            self._cluster.reached().forget_kinds()
        waiter = self._waiter(request.urn, request.timeout, manifest)
        try:
            live = await waiter.until_ready(manifest, live, None)
        except wait.NotReady as error:
            state = checkpoint.make(manifest, error.live, request.properties, writer.manager)
            raise failures.not_ready(error, failures.start(request.urn, error), state) from error
        except (ValueError, api.ApiError, api.Unreachable) as error:
            state = checkpoint.make(manifest, live, request.properties, writer.manager)
            raise failures.incomplete(live, failures.start(request.urn, error), state) from error
        await self._log.clear(request.urn)
        return sdk.CreateResponse(
            kinds.resource_id(live), checkpoint.make(manifest, live, request.properties, writer.manager)
        )

    def _waiter(self, urn: str, timeout: float, manifest: Manifest) -> wait.Waiter:
        async def tell(line: str) -> None:
            await self._log.status(urn, line)

        annotated = kinds.annotation(manifest, "timeoutSeconds")
        seconds = timeout or (float(annotated) if annotated.isdigit() else wait.DEFAULT_SECONDS)
        return wait.Waiter(self._cluster.reached(), tell, self._cancelled, seconds)

    async def update(self, request: sdk.UpdateRequest) -> sdk.UpdateResponse:
        """Changes an object in place and waits until it is ready again."""
        manifest = inputs.normalized(values.plain_map(request.news))
        if request.preview and not await self._cluster.can_try(kinds.of(manifest), manifest):
            return sdk.UpdateResponse(request.news)
        stored = checkpoint.Checkpoint.parse(request.olds)
        writer = self._writer(manifest, stored.manager, request.preview)
        try:
            live = await self._update(writer, stored, manifest, request)
        except wait.NotReady as error:
            state = checkpoint.make(manifest, error.live, request.news, writer.manager)
            raise failures.not_ready(error, failures.update(stored.live, error), state) from error
        except (api.ApiError, api.KindMissing, api.Unreachable, ValueError) as error:
            if request.preview and isinstance(error, api.ApiError) and error.code == 403:
                return sdk.UpdateResponse(request.news)
            now = None if request.preview else await self._cluster.read(stored.live)
            if now is None:
                raise failures.Refused(f"update of resource {request.urn!r} failed: {error}") from error
            state = checkpoint.make(manifest, now, request.news, writer.manager)
            raise failures.incomplete(now, failures.update(now, error), state) from error
        await self._log.clear(request.urn)
        return sdk.UpdateResponse(checkpoint.make(manifest, live, request.news, writer.manager))

    async def _update(
        self, writer: Writer, stored: checkpoint.Checkpoint, manifest: Manifest, request: sdk.UpdateRequest
    ) -> Manifest:
        before, live = await writer.update(manifest, kinds.name_of(stored.live))
        if request.preview:
            return live
        if manifest.get("kind") == "CustomResourceDefinition":
            self._cluster.reached().forget_kinds()
        waiter = self._waiter(request.urn, request.timeout, manifest)
        live = await waiter.until_ready(manifest, live, before)
        if stored.manager and stored.manager != writer.manager:
            await dataclasses.replace(writer, manager=stored.manager).relinquish(live)
        return live

    async def delete(self, request: sdk.DeleteRequest) -> None:
        """Deletes an object and waits until it is gone."""
        stored = checkpoint.Checkpoint.parse(request.properties)
        if self._cluster.api is None:
            raise failures.Refused(failures.unreachable(self._cluster.unreachable))
        try:
            gone = await delete(self._cluster.api, stored.live, stored.inputs)
            if gone is not None:
                await self._waiter(request.urn, request.timeout, stored.inputs).until_gone(stored.inputs, gone)
        except api.KindMissing:
            return  # its CustomResourceDefinition is gone, and so is the object
        except wait.NotReady as error:
            raise failures.not_ready(
                error, str(error), checkpoint.make(stored.inputs, error.live, request.properties, stored.manager or "")
            ) from error
        except api.ApiError as error:
            raise failures.Refused(f"deletion of resource {request.urn!r} failed: {error}") from error

    # -- what is there --------------------------------------------------------------------------------------------

    async def read(self, request: sdk.ReadRequest) -> sdk.ReadResponse:
        """Reads an object for a refresh, an import or a `get`."""
        if self._cluster.api is None:
            raise failures.Refused(f"failed to read resource state: {failures.unreachable(self._cluster.unreachable)}")
        _refuse(request.type)
        stored = checkpoint.Checkpoint.parse(request.properties)
        declared = inputs.normalized(values.plain_map(request.inputs))
        first_read = not declared.get("kind")
        kind = kinds.from_token(request.type) if first_read else kinds.of(declared)
        namespace, name = kinds.split_id(request.resource_id)
        if not name:
            raise failures.Refused(f"cannot read {request.resource_id!r}: an id is `namespace/name` or `name`")
        target = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "namespace": namespace or kinds.namespace_of(declared)},
        }
        try:
            live = await self._cluster.api.get(target)
        except api.KindMissing:
            return sdk.ReadResponse(resource_id="")
        except api.ApiError as error:
            if error.code == 404:
                return sdk.ReadResponse(resource_id="")
            raise failures.Refused(f"reading resource {request.urn!r} failed: {error}") from error
        live_inputs = inputs.imported(live) if first_read else inputs.pruned(live, declared)
        source = request.inputs or request.properties
        manager = ownership.manager_name(declared, stored.manager)
        state_now = checkpoint.make(live_inputs, live, source, manager)
        inputs_now = values.with_secrets_of(values.wrap_map(live_inputs), source)
        verdict = await wait.now_ready(self._cluster.api, declared, live) if not first_read else None
        if verdict is not None and not verdict.ready:
            raise failures.PartialFailure(
                request.resource_id,
                f"Resource '{name}' was created but failed to initialize",
                state_now,
                list(verdict.lacking),
                inputs_now,
            )
        return sdk.ReadResponse(request.resource_id, state_now, inputs_now)

    # -- what is refused ------------------------------------------------------------------------------------------

    async def invoke(self, request: sdk.InvokeRequest) -> sdk.InvokeResponse:
        """Refuses every function: they render Helm charts, kustomizations and YAML files."""
        reason = f"the stand-in provider does not have the function {request.tok}"
        raise failures.Refused(kinds.refusal(request.tok) or reason)

    async def construct(self, request: sdk.ConstructRequest) -> sdk.ConstructResponse:
        """Refuses every component."""
        reason = f"the stand-in provider has no component {request.resource_type}"
        raise failures.Refused(kinds.refusal(request.resource_type) or reason)

    async def get_schema(self, request: sdk.GetSchemaRequest) -> sdk.GetSchemaResponse:
        """Refuses: the schema comes with the official plugin."""
        raise failures.Refused("the stand-in provider has no schema; import with `--generate-code=false`")


def _refuse(token: str) -> None:
    refusal = kinds.refusal(token)
    if refusal:
        raise failures.Refused(refusal)


def _in_namespace(manifest: Manifest, namespaced: bool) -> Manifest:
    metadata = dict(kinds.metadata_of(manifest))
    metadata["namespace"] = (metadata.get("namespace") or "default") if namespaced else ""
    return {**manifest, "metadata": metadata}


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
