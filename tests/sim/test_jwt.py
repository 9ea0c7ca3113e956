"""Behind an authorizer of the module's form only tokens of its issuer, audience and scope pass.

The authorizer's settings are read from the module; who issues the tokens is a server of
this test on loopback.
"""

import base64
import json
import re
import threading
import time
import unittest
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from filled import filled
from simulators import HERE

_MODULE = (HERE.parent.parent / "terraform/api.tf").read_text()


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class Issuer(BaseHTTPRequestHandler):
    """Tells its key, and answers as the API behind the gateway would."""

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def do_GET(self) -> None:
        numbers = self.key.public_key().public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        n, e = _text(numbers.n.to_bytes(size, "big")), _text(numbers.e.to_bytes(3, "big"))
        answers = {
            "/.well-known/openid-configuration": {"jwks_uri": f"http://{self.headers['Host']}/keys"},
            "/keys": {"keys": [{"kty": "RSA", "kid": "1", "n": n, "e": e}]},
        }
        body = json.dumps(answers.get(self.path, {"behind": True})).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        cls.issuer = f"http://127.0.0.1:{cls.server.server_port}"
        cls.url = cls._gateway()

    @classmethod
    def _gateway(cls) -> str:
        """An API that reads and writes, with the authorizer as the module makes it."""
        gateway = filled().client("apigatewayv2")
        kind = re.search(r'authorizer_type\s*=\s*"(\w+)"', _MODULE)[1]
        source = re.search(r'identity_sources\s*=\s*\["(.+?)"\]', _MODULE)[1]
        api = gateway.create_api(Name="tokens", ProtocolType="HTTP")["ApiId"]
        jwt = {"Issuer": cls.issuer, "Audience": ["ebb"]}
        made = gateway.create_authorizer(
            ApiId=api, Name="tokens", AuthorizerType=kind, IdentitySource=[source], JwtConfiguration=jwt
        )
        proxy = {"IntegrationType": "HTTP_PROXY", "IntegrationMethod": "GET", "IntegrationUri": f"{cls.issuer}/api"}
        target = gateway.create_integration(ApiId=api, PayloadFormatVersion="1.0", **proxy)["IntegrationId"]
        for key, scopes in (("GET /v1/findings", ["ebb.read", "ebb.write"]), ("POST /v1/findings", ["ebb.write"])):
            gateway.create_route(
                ApiId=api,
                RouteKey=key,
                AuthorizationType=kind,
                AuthorizationScopes=scopes,
                AuthorizerId=made["AuthorizerId"],
                Target=f"integrations/{target}",
            )
        gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)
        return f"{filled().sim.ministack_url}/_aws/execute-api/{api}/$default/v1/findings"

    def _token(self, **claims: Any) -> str:
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        body = {"iss": self.issuer, "aud": "ebb", "exp": int(time.time()) + 60, "sub": "ana", "scope": "ebb.read"} | claims
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, body))
        signature = Issuer.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_text(signature)}"

    def _status(self, token: str | None, method: str = "GET") -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url, headers=headers, method=method), timeout=10) as answer:
                self.assertEqual(json.load(answer), {"behind": True})
                return answer.status
        except urllib.error.HTTPError as refused:
            return refused.code

    def test_only_tokens_of_the_issuer_for_the_audience_pass(self):
        good = self._token()
        self.assertEqual(self._status(good), 200)
        refused = {
            "none": None,
            "no token": "abc",
            "another audience": self._token(aud="others"),
            "another issuer": self._token(iss="https://login.example.org"),
            "too old": self._token(exp=int(time.time()) - 1),
            "changed": good[:-8] + "AAAAAAAA",
        }
        for why, token in refused.items():
            self.assertEqual(self._status(token), 401, why)

    def test_writing_needs_a_scope_of_its_own(self):
        tokens = {scope: self._token(scope=scope) for scope in ("ebb.read", "ebb.write", "others")}
        reading = {scope: self._status(token) for scope, token in tokens.items()}
        writing = {scope: self._status(token, "POST") for scope, token in tokens.items()}
        self.assertEqual(reading, {"ebb.read": 200, "ebb.write": 200, "others": 403})
        self.assertEqual(writing, {"ebb.read": 403, "ebb.write": 200, "others": 403})


if __name__ == "__main__":
    unittest.main()
