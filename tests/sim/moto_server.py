"""Runs moto with the additions in `extensions/`, on loopback only.

`python moto_server.py --port P` serves EC2, Auto Scaling, Batch, ECS,
CloudWatch and Cost Explorer until SIGTERM or SIGINT. `EBB_CALLS` names a folder
to record the calls in.
"""

import argparse
import logging
import os
import signal
import sys

HOST = "127.0.0.1"


def main() -> None:
    """Parses the port, installs the additions, serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    os.environ["MOTO_PORT"] = str(port)
    # Any image id will do: the images of the real account are not the point.
    os.environ.setdefault("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")

    from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    from extensions import moto_batch, moto_cloudwatch, moto_cost_explorer, moto_ec2, moto_ecs, moto_stack_sets
    from extensions.calls import Recorder
    from extensions.moto_advisers import Advisers
    from extensions.moto_calls import RecordedCalls
    from extensions.moto_faults import Faults
    from extensions.moto_prices import Prices

    for addition in (moto_ec2, moto_ecs, moto_batch, moto_cloudwatch, moto_cost_explorer, moto_stack_sets):
        addition.install()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    app = Faults(Prices(Advisers(DomainDispatcherApplication(create_backend_app))))
    recorder = Recorder.wanted("moto")
    if recorder is not None:
        app = RecordedCalls(app, recorder)
    run_simple(HOST, port, app, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
