"""Distributions that are installed by hand, as pip leaves them: their files, and a folder of metadata with a RECORD."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


def install(
    site: Path,
    name: str,
    files: Mapping[str, str],
    *,
    needs: Iterable[str] = (),
    also_recorded: Iterable[str] = (),
    recorded: bool = True,
    editable: bool = False,
) -> None:
    """Install version 1.2 of a distribution with these files; the RECORD may have more, as scripts in other folders."""
    info = f"{name.replace('-', '_')}-1.2.dist-info"
    requires = "".join(f"Requires-Dist: {each}\n" for each in needs)
    kept = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n{requires}\n"}
    if editable:
        kept[f"{info}/direct_url.json"] = json.dumps({"url": "file:///src", "dir_info": {"editable": True}})
    if recorded:
        kept[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*kept, *also_recorded, f"{info}/RECORD"])
    for path, text in kept.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


def install_samples(site: Path) -> None:
    """`shapes` needs `Thin-Lines` (the module `lines`); `circles` and `squares` share the folder `shared`;
    the
    package `far` is a link to another folder. All are version 1.2.

    Beside them lie a package that nobody installed, and a file.
    """
    install(
        site,
        "shapes",
        {
            "shapes/__init__.py": "import lines\nfrom shapes.corners import count\nedges = lines.number + count\n",
            "shapes/corners.py": "count = 4\ndef fail():\n    raise ValueError('no corner')\n",
            "shapes/colours.txt": "red\n",
            "shapes.libs/libshape.so": "",
        },
        needs=["Thin_Lines>=1; python_version > '3'", "not-there", "beside; extra == 'more'", "squares ; extra=='x'"],
        also_recorded=[
            "../../bin/shapes",
            "/etc/passwd",
            "shapes/../beside/__init__.py",
            ".",
            "./__init__.py",
            "",
            "beside",
            "beside/",
        ],
    )
    install(site, "Thin-Lines", {"lines.py": "number = 3\n"})
    install(
        site,
        "circles",
        {"shared/circles/__init__.py": "from shared.circles.inner import r\n", "shared/circles/inner.py": "r = 1\n"},
    )
    install(site, "far", {"far/__init__.py": "from far.away import distance\n", "far/away.py": "distance = 9\n"})
    (site / "far").rename(site / "elsewhere")
    (site / "far").symlink_to(site / "elsewhere")
    install(site, "squares", {"shared/squares/__init__.py": "side = 2\n"})
    install(site, "linked", {"__editable___linked_finder.py": "", "linked.pth": "/src\n"}, editable=True)
    install(site, "unrecorded", {"unrecorded.py": ""}, recorded=False)
    install(site, "scripts", {}, also_recorded=["../../bin/scripts"])
    install(site, "needs-linked", {"needy.py": ""}, needs=["linked"])
    (site / "beside").mkdir()
    (site / "beside" / "__init__.py").write_text("")
    (site / "secret.txt").write_text("a secret beside the packages")
