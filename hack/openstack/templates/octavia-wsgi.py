"""Octavia's API as /usr/bin/octavia-wsgi has it, but for one thing.

Each use of Zed's ovn provider makes a driver, which waits for its thread when the garbage collector
finds it (OvnProviderDriver.__del__). The collector runs wherever memory is asked for: in a request
that has a load balancer locked in the database, that thread may need the same lock, and both wait
for ever; then each request of the project ends with "Project busy". So garbage is collected in a
thread that has nothing locked.
"""

import gc
import threading
import time

from octavia.api.app import setup_app


def collect():
    while True:
        time.sleep(2)
        gc.collect()


gc.disable()
threading.Thread(target=collect, daemon=True).start()
application = setup_app()
