"""The cache between two checks of a text, before and after a keystroke."""

from __future__ import annotations

import msgspec

from rrext.limits import Limits
from rrext.pipefile.catalog.catalog import Catalog
from rrext.pipefile.component_reading import ComponentReading
from rrext.pipefile.environment import Environment
from rrext.pipefile.near_names import NearNames
from rrext.pipefile.text.problems import Severity
from rrext.pipefile.text.source import SourceMap


class CheckCache(msgspec.Struct, frozen=True, eq=False):
    """The source map of a text, and the readings of its components by the id of their value.

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
