"""Operations that look at the catalog, and touch no task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rrext.engine.interface import operations
from rrext.pipefile.config import resolve_config
from rrext.pipefile.pipeline_loader import validate

if TYPE_CHECKING:
    from rrext.engine.interface.call import Caller
    from rrext.limits import Limits
    from rrext.pipefile.catalog.catalog import Catalog
    from rrext.pipefile.environment import Environment


def looked_up(
    catalog: Catalog,
    environment: Environment,
    limits: Limits,
    caller: Caller,
    operation: operations.Validate | operations.Services | operations.ResolveConfig,
) -> dict[str, Any]:
    """Make the body of the answer."""
    match operation:
        case operations.Validate():
            environment = environment if caller.trusted else environment.for_client(None)
            return validate(operation.pipeline, catalog, environment, operation.source, limits)
        case operations.Services():
            return catalog.services(operation.service)
        case operations.ResolveConfig():
            return resolve_config(catalog, operation.provider, operation.config or {})
