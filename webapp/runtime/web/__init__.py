"""What stands between the web server and the application: the event loop's share of every request.

Modules:
    pages: pages and the REST API, with complete bodies.
    bodies: bodies of requests, read in bounds.
    limits: how large a body an address takes.
    bridge: the WSGI application under the event loop.
    gates: a pool of threads behind a bounded queue.
    shares: how much one person may take at a time.
    places: connections that hold a place.
    proxies: who is asking where proxies stand in between.
    answers: answers that the event loop gives by itself.
    pulse: a sign that the event loop runs.
    watchdog: the end of a process whose event loop has stopped.
"""
