"""Configuration of a node set's networks: RDMA devices, secondary interfaces, NCCL's variables."""

from components.config.model import Model, setting
from components.config.nodes.nccl import FABRICS, FabricProduct, NcclValue, NcclVariable
from components.config.values.object_names import LabelKey, ObjectName
from components.config.values.quantities import WholeNumber


class RdmaResource(Model):
    """RDMA devices of each node, as a device plugin of Kubernetes offers them."""

    resource: LabelKey = setting(
        "Kubernetes resource, such as rdma/fabric; networkOperator.pools says which there are."
    )
    count: WholeNumber = setting(
        "Units of it for each node. One unit of a shared pool opens all of the pool's adapters.", default=1, ge=1, le=64
    )
    adapters: WholeNumber | None = setting(
        "Adapters of each node that must have an active port, else its health check drains it. Left out: as many as "
        "units, and all that had a link since the machine's boot.",
        default=None,
        ge=1,
        le=64,
    )


class NodeNetwork(Model):
    """Networks of each node of a set, besides the pod network."""

    rdma: RdmaResource | None = setting("RDMA devices of each node; left out: none.", default=None)
    secondary: list[ObjectName] = setting(
        "Further interfaces: names of networkOperator.networks, or of NetworkAttachmentDefinitions of the namespace.",
        factory=list,
    )
    product: FabricProduct | None = setting(
        f"Kubernetes nodes with a known fabric: sets NCCL's variables for it ({', '.join(FabricProduct)}).",
        default=None,
    )
    nccl: dict[NcclVariable, NcclValue] = setting(
        "Variables for the nodes' /etc/nccl.conf. They replace those of product; a job's own environment replaces "
        "both.",
        factory=dict,
    )

    @property
    def nccl_variables(self) -> dict[str, str]:
        """All variables of NCCL, sorted."""
        known = FABRICS[self.product].variables if self.product else {}
        return dict(sorted({**known, **self.nccl}.items()))
