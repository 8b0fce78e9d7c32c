"""Bytes of one URL, from an offset where the server can, again after a broken line.

Owns the request, the Range and If-Range headers and the retries. It knows nothing of files, hashes or models.
"""

import base64
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from appliance.models.digest import CHUNK_BYTES
from appliance.models.progress import SourceError

_AGENT = "appliance-models"
_TIMEOUT_S = 15.0
_FRUITLESS_TRIES = 3


@dataclass(slots=True)
class Download:
    """One URL being read. After `chunks` has started, `begun_at` says at which offset the server began (0 when it
    did not resume), `total` the size of the whole (0 unknown), `validator` what identifies this version of it."""

    url: str
    validator: str = ""
    begun_at: int = 0
    total: int = 0
    cafile: str = ""

    def chunks(self, offset: int = 0) -> Iterator[bytes]:
        """The bytes from `offset` on, or from 0 when the server cannot resume there: check `begun_at` at the first
        chunk. A broken connection is picked up where it broke while that makes progress. Raises SourceError."""
        at, fruitless, first = offset, 0, True
        while True:
            try:
                with self._open(at) as response:
                    begun = self._begun_at(response, at)
                    if not first and begun != at:
                        raise SourceError("the connection broke and the server cannot resume")
                    if first:
                        self.begun_at, at, first = begun, begun, False
                    while chunk := response.read(CHUNK_BYTES):
                        at += len(chunk)
                        fruitless = 0
                        yield chunk
                if not self.total or at >= self.total:
                    return
                reason = f"the connection broke after {at} of {self.total} bytes"
            except urllib.error.HTTPError as error:
                if error.code == 416 and first and offset:
                    self.validator, at, offset = "", 0, 0
                    continue
                raise SourceError(f"{self.host} answered {error.code} {error.reason}") from error
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                reason = f"{self.host}: {_reason(error)}"
                if first and fruitless + 1 >= _tries_before_first_byte(error):
                    raise SourceError(reason, dead=self.host) from error
            fruitless += 1
            if fruitless >= _FRUITLESS_TRIES:
                raise SourceError(reason)

    @property
    def host(self) -> str:
        """Who answers for the URL, with the port where it names one: what is remembered as dead."""
        return urllib.parse.urlsplit(self.url).netloc.rpartition("@")[2] or self.url

    def _open(self, offset: int) -> http.client.HTTPResponse:
        url, credentials = _without_credentials(self.url)
        request = urllib.request.Request(url, headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"})
        if credentials:
            request.add_unredirected_header("Authorization", credentials)
        elif os.environ.get("HF_TOKEN") and url.startswith(hub() + "/"):
            request.add_unredirected_header("Authorization", f"Bearer {os.environ['HF_TOKEN']}")
        if offset:
            request.add_header("Range", f"bytes={offset}-")
            if self.validator:
                request.add_header("If-Range", self.validator)
        context = ssl.create_default_context(cafile=self.cafile or None) if url.startswith("https:") else None
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context)
        return response

    def _begun_at(self, response: http.client.HTTPResponse, asked: int) -> int:
        etag = response.headers.get("ETag", "")
        # A weak tag may stand for other bytes, so it must not vouch for a resumed download.
        strong = etag if etag and not etag.startswith("W/") else ""
        self.validator = strong or response.headers.get("Last-Modified", "")
        length = int(response.headers.get("Content-Length") or 0)
        if asked and getattr(response, "status", 200) == 206:
            begin = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
            if begin.strip() != str(asked):
                raise SourceError(f"{self.host} resumed at another place than it was asked to")
            self.total = asked + length if length else 0
            return asked
        self.total = length
        return 0


def hub() -> str:
    """Base address of the model hub; HF_ENDPOINT names a mirror."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def hub_url(repo: str, path: str) -> str:
    return f"{hub()}/{repo}/resolve/main/{urllib.parse.quote(path)}"


def read_text(url: str, accept: str = "", cafile: str = "") -> tuple[str, str]:
    """A small page: its text and content type. Raises SourceError."""
    address, credentials = _without_credentials(url)
    request = urllib.request.Request(address, headers={"User-Agent": _AGENT})
    if accept:
        request.add_header("Accept", accept)
    if credentials:
        request.add_unredirected_header("Authorization", credentials)
    context = ssl.create_default_context(cafile=cafile or None) if address.startswith("https:") else None
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=context) as response:
            return response.read().decode("utf-8", "replace"), response.headers.get("Content-Type", "")
    except urllib.error.HTTPError as error:
        raise SourceError(f"{Download(address).host} answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        host = Download(address).host
        raise SourceError(f"{host}: {_reason(error)}", dead=host) from error


def _without_credentials(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    if parts.username is None:
        return url, ""
    pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return urllib.parse.urlunsplit(plain), "Basic " + base64.b64encode(pair.encode()).decode()


def _tries_before_first_byte(error: Exception) -> int:
    """A name that does not resolve or a refused port will not mend within seconds; a reset may."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    return 2 if isinstance(cause, ConnectionResetError | http.client.HTTPException) else 1


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
