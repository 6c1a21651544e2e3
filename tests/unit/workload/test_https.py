"""https goes through aiohttp, with certificates checked."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sse_server import SseServer, sglang_stream

PROGRAM = textwrap.dedent("""
    import json, sys
    from benchharness.records import Endpoint, Workload
    from benchharness.workload import client
    workload = Workload(8, 4, 1, warmup_requests=0, timeout_s=20)
    (seen,) = client.drive(Endpoint(sys.argv[1], "sglang"), workload, prompts=lambda _: (1,) * 8)
    result = [seen.failure, seen.failure_text, seen.output_tokens, seen.transport, seen.unstamped_reads]
    print(json.dumps(result))
""")


def certificate(folder: Path) -> tuple[str, str]:
    """(certificate, key) of localhost, signed by itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    names = str(folder / "cert.pem"), str(folder / "key.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    argv = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*argv, "-out", names[0], "-keyout", names[1]], check=True, capture_output=True)
    return names


@pytest.mark.parametrize("trusted", [True, False])
def test_streams_over_tls(tmp_path: Path, trusted: bool) -> None:
    cert, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with SseServer(lambda connection: connection.stream(sglang_stream(4)), context) as server:
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        variables = os.environ | ({"SSL_CERT_FILE": cert} if trusted else {})
        argv = [sys.executable, "-c", PROGRAM, url]
        said = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=60, check=True)
    failure, text, tokens, transport, unstamped = json.loads(said.stdout)
    assert transport == "aiohttp-user-clock"
    if trusted:
        assert (failure, tokens) == (None, 4), text
        assert unstamped > 0
    else:
        assert (failure, tokens) == ("connect", 0)
        assert "certificate verify failed" in text
