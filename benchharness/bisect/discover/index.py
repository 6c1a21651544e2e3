"""Releases of a package on the package index: the simple API, as JSON (PEP 691) or as a page (PEP 503)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from benchharness.bisect.discover.wheels import Distribution, of_files
from benchharness.bisect.order import Release
from benchharness.errors import InfrastructureError, UsageError

DEFAULT = "https://pypi.org/simple"
DEFAULT_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
EXTRA_VARIABLES = ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT")
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
TIMEOUT_S = 30.0


def releases(
    package: str, *, python: str | None = None, extra_index_urls: Sequence[str] = ()
) -> tuple[Release, ...]:
    """Every version of a package on the indexes, in no order.

    The indexes are those that uv would ask: `UV_DEFAULT_INDEX`, `UV_INDEX_URL` or `PIP_INDEX_URL`, else
    PyPI; and the extra ones of the same tools' variables and of the stack. As with uv, the first index
    that has the package tells all of it, extra ones before the default.

    Args:
        package: name of the distribution.
        python: version of the environment's interpreter; versions without a file for it are marked.
        extra_index_urls: further indexes.

    Raises:
        UsageError: no index has the package.
        InfrastructureError: an index can't be reached or doesn't answer as one.
    """
    name = canonicalize_name(package)
    for index in indexes(os.environ, extra_index_urls):
        files = _files(index, name)
        if files is not None:
            found = of_files(package, files, python)
            if found:
                return found
    raise UsageError(
        f"no index has a release of {package}", "check its spelling, or name an index in `extra_index_urls:`"
    )


def indexes(variables: Mapping[str, str], extra: Sequence[str] = ()) -> tuple[str, ...]:
    """Addresses of the indexes in the order in which they are asked, none twice."""
    default = next((variables[name] for name in DEFAULT_VARIABLES if variables.get(name)), DEFAULT)
    further = [url for name in EXTRA_VARIABLES for url in variables.get(name, "").split()]
    if variables.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes", "on"):
        raise UsageError(
            "PIP_NO_INDEX forbids an index, so releases can't be listed", "name a folder of wheels instead"
        )
    urls = [*extra, *further, default]
    # uv may write an index with a name before it: `NAME=URL`.
    plain = [re.sub(r"^[A-Za-z0-9_.-]+=(?=\w+://)", "", url).rstrip("/") for url in urls]
    return tuple(dict.fromkeys(plain))


def _files(index: str, name: str) -> list[Distribution] | None:
    """The files of a package; None if the index hasn't got it."""
    if index.startswith("file:"):
        return _files_on_disk(index, name)
    import requests  # a tenth of a second, and not every axis needs it

    shown = re.sub(r"(\w://)[^/@\s]+@", r"\1***@", index)
    certificate = next((os.environ[one] for one in CERTIFICATE_VARIABLES if os.environ.get(one)), True)
    try:
        answer = requests.get(
            f"{index}/{name}/", headers={"Accept": ACCEPT}, timeout=TIMEOUT_S, verify=certificate
        )
    except (requests.RequestException, OSError) as error:
        kind = type(error).__name__
        raise InfrastructureError(
            f"the index {shown} can't be reached ({kind})", "check the network"
        ) from None
    if answer.status_code == 404:
        return None
    if answer.status_code in (401, 403):
        raise InfrastructureError(
            f"the index {shown} refused (status {answer.status_code})", "check its user and password"
        )
    if answer.status_code != 200:
        raise InfrastructureError(f"the index {shown} answered with status {answer.status_code}", "try again")
    if "json" in answer.headers.get("Content-Type", ""):
        try:
            return _of_json(answer.json())
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InfrastructureError(
                f"the index {shown} doesn't answer as PEP 691 asks", "name another index"
            ) from None
    return of_page(answer.text)


def _files_on_disk(index: str, name: str) -> list[Distribution] | None:
    folder = Path(unquote(urlsplit(index).path)) / name
    try:
        return of_page((folder / "index.html").read_text(encoding="utf-8"))
    except OSError:
        return [Distribution(path.name) for path in folder.iterdir()] if folder.is_dir() else None


def _of_json(data: Mapping[str, Any]) -> list[Distribution]:
    return [
        Distribution(
            filename=str(file["filename"]),
            requires_python=str(file.get("requires-python") or ""),
            yanked=_yanked(file.get("yanked", False)),
            date=str(file.get("upload-time") or ""),
        )
        for file in data["files"]
    ]


def _yanked(told: object) -> str | None:
    if not told:
        return None
    return told if isinstance(told, str) else "no reason given"


def of_page(text: str) -> list[Distribution]:
    """The files that a page links to."""
    page = _Page()
    page.feed(text)
    page.close()
    return page.files


class _Page(HTMLParser):
    """Links of a page, with what PEP 503 and PEP 592 put beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.files: list[Distribution] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a link that names a file."""
        told = dict(attrs)
        name = unquote(urlsplit(told.get("href") or "").path.rpartition("/")[2])
        if tag == "a" and name:
            yanked = (told["data-yanked"] or "no reason given") if "data-yanked" in told else None
            self.files.append(Distribution(name, told.get("data-requires-python") or "", yanked))
