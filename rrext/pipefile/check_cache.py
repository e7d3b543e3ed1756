"""What a check of a text leaves for the next one, when somebody has typed."""

from __future__ import annotations

import msgspec

from rrext.limits import Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.component_reading import ComponentReading
from rrext.pipefile.environment import Environment
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.problems import Severity
from rrext.pipefile.text.source import SourceMap

__all__ = ["CheckCache"]


class CheckCache(msgspec.Struct, frozen=True, eq=False):
    """Where everything stands in a text, and what its components say for themselves: id of a value → its reading.

    Whoever uses it only reads it, and finds nothing that working it out again would not give, as long as it `holds`.
    """

    catalog: Catalog
    environment: Environment
    limits: Limits
    unknown: Severity
    map: SourceMap
    readings: dict[int, ComponentReading]
    near: NearNames

    def holds(self, catalog: Catalog, environment: Environment, limits: Limits, unknown: Severity) -> bool:
        """Whether what the answers depend on beside the text is the same."""
        same = self.catalog is catalog and self.environment is environment
        return same and self.limits == limits and self.unknown == unknown
