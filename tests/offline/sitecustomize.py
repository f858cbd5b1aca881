"""Keeps a test run off the network: only loopback addresses can be looked up or reached.

An audit hook sees every use of Python's sockets, whichever library makes it, and cannot be taken off again. Python
runs a module of this name at start-up when its folder is on `PYTHONPATH`, which `conftest.py` sees to; so processes
started by tests are covered like the tests themselves.
"""

import sys

_ADDRESS_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOKUP_EVENTS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")


def _is_local(host):
    import ipaddress

    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    if host in (None, "", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _refuse_remote_hosts(event, arguments):
    if event in _LOOKUP_EVENTS:
        host = arguments[0]
    elif event in _ADDRESS_EVENTS and isinstance(arguments[1], tuple):  # Unix sockets have a path instead
        host = arguments[1][0]
    else:
        return
    if not _is_local(host):
        raise RuntimeError(f"{event}: tests must not use the network (host {host!r})")


sys.addaudithook(_refuse_remote_hosts)
