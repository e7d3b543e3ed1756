"""Certificates that an end makes for itself and for its life: only the public halves leave it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from rrext.errors import Unavailable
from rrext.transports.tls import Identity

BEGIN: Final = datetime(2000, 1, 1)
END: Final = datetime(9999, 12, 31)
"""Clocks of machines differ, and a certificate ends with its process: it is valid at all times."""

EXTRA: Final = 'pip install "rrext[cluster]"'


def new_identity(name: str) -> Identity:
    """A certificate with its key. Raises `Unavailable` without the package that makes them."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise Unavailable("a cluster needs the package cryptography", hint=EXTRA) from None

    key = Ed25519PrivateKey.generate()  # made in half the time of one on P-256, and a connection keeps 2 KiB less
    names = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(names)
        .issuer_name(names)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(certificate.public_bytes(pem).decode(), secret.decode())
