"""Makes each process of Python blind for secrets, so that a test can see what it would find without a redactor."""

from __future__ import annotations

from rrext.secrets.redaction import Redactor, ResultRedactor

Redactor.text = lambda self, text: text
Redactor.piece = lambda self, text: (text, "")
Redactor.value = lambda self, value: value
Redactor.error = lambda self, error: None
ResultRedactor.value = lambda self, value, folded: value
