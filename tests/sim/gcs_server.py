"""Plays what a client of Cloud Storage's XML API asks for: objects, conditions and lists.

A mock, of our own because no emulator of a package registry speaks that API:
gcp-storage-emulator 2026.7.19 lists, deletes and holds conditions by the JSON API alone,
and fake-gcs-server takes a plain PUT only with a signed URL. Nothing asks who calls.

Source: Cloud Storage, "XML API reference": PUT, GET, HEAD and DELETE object, PUT bucket and
"List objects" (list-type=2), "Request preconditions", "HTTP status and error codes for XML".
"""

import argparse
import hashlib
import threading
from datetime import datetime, timezone
from io import BytesIO
from itertools import count
from typing import NamedTuple
from urllib.parse import unquote
from xml.sax.saxutils import escape

from flask import Flask, Response, request, send_file

# Cloud Storage pages by the thousand; with so few every list of more is paged.
_PAGE = 5


class _Stored(NamedTuple):
    body: bytes
    generation: int
    written: datetime
    headers: dict[str, str]

    @property
    def etag(self) -> str:
        return hashlib.md5(self.body, usedforsecurity=False).hexdigest()


app = Flask(__name__)
app.url_map.merge_slashes = False
_buckets: dict[str, dict[str, _Stored]] = {}
_generations = count(1_700_000_000_000_000)
_one_at_a_time = threading.Lock()


def _error(status: int, code: str) -> Response:
    body = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
    return Response(body, status, mimetype="application/xml")


@app.put("/<bucket>")
def make_bucket(bucket: str) -> Response:
    _buckets.setdefault(bucket, {})
    return Response()


@app.get("/<bucket>")
def list_objects(bucket: str) -> Response:
    if bucket not in _buckets:
        return _error(404, "NoSuchBucket")
    asked = request.args
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    after = asked.get("continuation-token") or asked.get("start-after", "")
    limit = min(int(asked.get("max-keys", _PAGE)), _PAGE)
    rows: dict[str, str] = {}
    with _one_at_a_time:
        objects = sorted(_buckets[bucket].items())
    for key, stored in objects:
        if not key.startswith(prefix):
            continue
        folder, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
        name = prefix + folder + delimiter if found else key
        if name > after and name not in rows:
            rows[name] = _folder(name) if found else _object(key, stored)
    page = dict(list(rows.items())[:limit])
    more = len(rows) > len(page)
    token = f"<NextContinuationToken>{escape(list(page)[-1])}</NextContinuationToken>" if more and page else ""
    head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>"
    head += f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
    body = f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult>{head}{''.join(page.values())}</ListBucketResult>"
    return Response(body, mimetype="application/xml")


def _folder(name: str) -> str:
    return f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"


def _object(key: str, stored: _Stored) -> str:
    written = stored.written.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return (
        f"<Contents><Key>{escape(key)}</Key><Generation>{stored.generation}</Generation>"
        f"<MetaGeneration>1</MetaGeneration><LastModified>{written}</LastModified>"
        f'<ETag>"{stored.etag}"</ETag><Size>{len(stored.body)}</Size></Contents>'
    )


@app.put("/<bucket>/<path:key>")
def put_object(bucket: str, key: str) -> Response:
    if bucket not in _buckets:
        return _error(404, "NoSuchBucket")
    body = request.get_data()
    kept = {name: value for name, value in request.headers if name.lower().startswith("x-goog-meta-")}
    kept["Content-Type"] = request.content_type or "application/octet-stream"
    with _one_at_a_time:
        there = _buckets[bucket].get(key)
        wanted = request.headers.get("x-goog-if-generation-match")
        if wanted is not None and int(wanted) != (there.generation if there else 0):
            return _error(412, "PreconditionFailed")
        if source := request.headers.get("x-goog-copy-source"):
            from_bucket, _, from_key = unquote(source).partition("/")
            original = _buckets.get(from_bucket, {}).get(from_key)
            if original is None:
                return _error(404, "NoSuchKey")
            body, kept = original.body, original.headers
        stored = _Stored(body, next(_generations), datetime.now(timezone.utc), kept)
        _buckets[bucket][key] = stored
    return Response(headers=_told(stored))


def _told(stored: _Stored) -> dict[str, str]:
    return {"ETag": f'"{stored.etag}"', "x-goog-generation": str(stored.generation), "x-goog-metageneration": "1"}


@app.get("/<bucket>/<path:key>")
def get_object(bucket: str, key: str) -> Response:
    stored = _buckets.get(bucket, {}).get(key)
    if stored is None:
        return _error(404, "NoSuchKey")
    kind = stored.headers["Content-Type"]
    answer = send_file(
        BytesIO(stored.body), mimetype=kind, conditional=True, etag=stored.etag, last_modified=stored.written
    )
    answer.headers.update({**stored.headers, **_told(stored)})
    return answer


@app.delete("/<bucket>/<path:key>")
def delete_object(bucket: str, key: str) -> Response:
    with _one_at_a_time:
        gone = _buckets.get(bucket, {}).pop(key, None)
    return Response(status=204) if gone else _error(404, "NoSuchKey")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, required=True)
    app.run("127.0.0.1", arguments.parse_args().port, threaded=True)
