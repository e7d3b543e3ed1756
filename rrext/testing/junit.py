"""The outcomes of cases as JUnit XML, as servers of continuous integration read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree import ElementTree

from rrext.testing.case_file import CaseFile
from rrext.testing.case_runner import Outcome

_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(files: Iterable[tuple[CaseFile, Sequence[Outcome]]]) -> bytes:
    """A document with a suite for each file. Each error of a file without outcomes is one of its suite."""
    root = ElementTree.Element("testsuites", name="rrext")
    for file, outcomes in files:
        errors = [] if outcomes else [each for each in file.problems if each.severity == "error"]
        if not outcomes and not errors:
            continue
        failed = [each for each in outcomes if each.verdict == "failed"]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_text(file.path),
            tests=str(len(outcomes) or len(errors)),
            failures=str(len(failed)),
            errors=str(len(errors)),
            time=f"{sum(each.seconds for each in outcomes):.3f}",
        )
        for outcome in outcomes:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=_text(file.path),
                name=_text(outcome.case.name),
                file=_text(file.path),
                line=str(file.line_of(outcome.case)),
                time=f"{outcome.seconds:.3f}",
            )
            if outcome.verdict == "failed":
                told = "\n".join(outcome.details)
                ElementTree.SubElement(case, "failure", message=_text(told.partition("\n")[0])).text = _text(told)
        if not outcomes:
            for problem in file.problems:
                case = ElementTree.SubElement(
                    suite, "testcase", classname=_text(file.path), name=_text(problem.path or "the file")
                )
                ElementTree.SubElement(case, "error", message=_text(problem.message))
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
