"""Operations that look at the catalog, and touch no task."""

from __future__ import annotations

from functools import partial
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
    root: str | None,
) -> dict[str, Any]:
    """Make the body of the answer. `root` is the folder that no pipeline of a caller who is not trusted leaves."""
    match operation:
        case operations.Validate():
            if caller.trusted:
                return validate(operation.pipeline, catalog, environment, operation.source, limits)
            from rrext.engine.tasks.foreign import refusals

            environment = environment.for_client(None)
            refused = partial(refusals, root=root)
            return validate(operation.pipeline, catalog, environment, operation.source, limits, refused)
        case operations.Services():
            return catalog.services(operation.service)
        case operations.ResolveConfig():
            return resolve_config(catalog, operation.provider, operation.config or {})
