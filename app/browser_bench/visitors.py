"""Visitors without a browser: Streamlit's own messages by websocket, which cost the server the same and this machine less."""

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from odevit.errors import UserError

from .own_server import Server

PATIENCE = 300  # seconds for one page
PROTOCOL = "streamlit"


class Visitor:
    """One session.   worst: bytes of the largest message that it got."""

    def __init__(self, server: Server, stack: ExitStack):
        address = server.address.replace("http", "ws", 1) + "/_stcore/stream"
        found = connect(address, subprotocols=[PROTOCOL], max_size=None)  # type: ignore[list-item]
        self.line: ClientConnection = stack.enter_context(found)
        self.worst = 0

    def open(self, page: str, **query: str | int) -> list[ForwardMsg]:
        """Open a page and wait for the script's end; what was sent meanwhile. UserError where the script broke."""
        ask = BackMsg()
        ask.rerun_script.query_string = urlencode(query)
        ask.rerun_script.page_name = page
        self.line.send(ask.SerializeToString())
        got: list[ForwardMsg] = []
        while not got or got[-1].WhichOneof("type") != "script_finished" or got[-1].script_finished == _AGAIN:
            data = self.line.recv(timeout=PATIENCE)
            self.worst = max(self.worst, len(data))
            got.append(ForwardMsg.FromString(data))
        for message in got:
            if message.WhichOneof("type") == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
                raise UserError(f"{page or 'overview'}: {' '.join(message.delta.new_element.exception.message.split())}")
        return got


_AGAIN = ForwardMsg.FINISHED_EARLY_FOR_RERUN


def crowd(server: Server, stack: ExitStack, count: int, models: Sequence[str], pages: Sequence[str]) -> list[Visitor]:
    """`count` visitors at once, each going through all pages of all models; they stay until the stack is closed."""
    visitors = [Visitor(server, stack) for _ in range(count)]
    problems: list[BaseException] = []

    def walk(visitor: Visitor) -> None:
        try:
            for model in models:
                for page in pages:
                    visitor.open(page, model=model, draw="all")
        except BaseException as error:  # told to whoever asked for the crowd
            problems.append(error)

    threads = [threading.Thread(target=walk, args=(visitor,)) for visitor in visitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    return visitors
