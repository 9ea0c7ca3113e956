"""Runs MiniStack with the additions in `extensions/`, on loopback only.

`python ministack_server.py --port P [--moto URL]` serves S3, SQS, Lambda, API
Gateway, Scheduler, IAM, STS, Secrets Manager, SES, SNS, Budgets, Systems Manager and alarms until
SIGTERM or SIGINT. `EBB_CALLS` names a folder to record the calls in.

A Lambda function in AWS knows its endpoints without being told. Functions that
MiniStack runs inherit this process's environment, so it holds nothing but what
a program needs to start, and the endpoints: MiniStack's own, and moto's for the
services that moto has.
"""

import argparse
import asyncio
import os
import signal
import sys

from extensions.calls import Recorder

ACCOUNT = "123456789012"
HOST = "127.0.0.1"
_KEPT = ("HOME", "LANG", "PATH", "TMPDIR")
_MOTO_SERVICES = (
    "AUTO_SCALING",
    "BATCH",
    "CLOUDWATCH",
    "COMPUTE_OPTIMIZER",
    "COST_EXPLORER",
    "COST_OPTIMIZATION_HUB",
    "EC2",
    "ECS",
)


def _environment(port: int, moto: str | None) -> dict[str, str]:
    """What MiniStack reads at import, and what its functions inherit."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    level = os.environ.get("MINISTACK_LOG_LEVEL", "WARNING")
    endpoints = {"AWS_ENDPOINT_URL": f"http://{HOST}:{port}"}
    if moto is not None:
        endpoints |= {f"AWS_ENDPOINT_URL_{service}": moto for service in _MOTO_SERVICES}
    settings = {
        "AUTH": "false",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",
        "LAMBDA_EXECUTOR": "local",
        "LOG_LEVEL": level,
        "MINISTACK_ACCOUNT_ID": ACCOUNT,
        "MINISTACK_HOST": HOST,
        "SFTP_ENABLED": "0",
    }
    # Each function has a session of its role instead.
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return kept | settings | endpoints | keys


async def _serve(port: int, recorder: Recorder | None) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    from ministack.app import app

    from extensions import ministack_alarms, ministack_function_role, ministack_s3_ingest, ministack_sqs_sender
    from extensions import ministack_ssm
    from extensions.ministack_caller import remember_caller
    from extensions.ministack_calls import record_calls, record_scheduler, record_sessions

    ministack_alarms.install()
    ministack_function_role.install()
    ministack_sqs_sender.install()
    ministack_ssm.install()
    config = Config()
    config.bind = [f"{HOST}:{port}"]
    # Longer than any client keeps an unused connection (Go and hyper: 90 s). If the server closes it while
    # a request arrives, the request is carried out and its answer lost, and the repeated one is refused.
    config.keep_alive_timeout = 3600
    config.loglevel = os.environ["LOG_LEVEL"]
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    guarded = remember_caller(ministack_s3_ingest.guard_ingest(app))
    if recorder is not None:
        record_sessions(recorder)
        record_scheduler(recorder)
        guarded = record_calls(guarded, recorder)
    await serve(guarded, config, shutdown_trigger=stop.wait)
    functions = sys.modules.get("ministack.services.lambda_svc")
    if functions is not None:
        # Warm functions are processes, and would outlive the server.
        functions.reset()


def main() -> None:
    """Parses the port and serves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--moto", metavar="URL")
    options = parser.parse_args()
    recorder = Recorder.wanted("ministack")
    environment = _environment(options.port, options.moto)
    os.environ.clear()
    os.environ.update(environment)
    asyncio.run(_serve(options.port, recorder))


if __name__ == "__main__":
    main()
