"""Publishes messages with another client in another language: pika, all 14 properties, typed headers.

    $REDRIVE_TEST_PYTHON tests/support/publish.py amqp://USER:PASSWORD@HOST:PORT/VHOST <messages.json

Standard input is a list of objects, or one object a line:

    {"exchange": "", "routing_key": "orders", "body": "text" or "body_base64": "…",
     "properties": {"content_type": …, "content_encoding": …, "delivery_mode": …, "priority": …,
                    "correlation_id": …, "reply_to": …, "expiration": …, "message_id": …, "timestamp": …,
                    "type": …, "user_id": …, "app_id": …, "cluster_id": …},
     "headers": {"name": {"<tag>": value}, …}}

A header's tag is the letter RabbitMQ uses on the wire: t b B s u I i l f d D S x T V A F. `S` also takes
{"S64": base64} for text that is not UTF-8, `x` takes base64, `D` takes [scale, unscaled], `A` a list of tagged
values, `F` an object of them. A header without a tag is encoded as pika likes.

Every message is published mandatory and with confirm; one line of JSON tells what came of it:
{"n": 0, "outcome": "confirmed" | "returned" | "nacked"}. The exit code is 1 unless all were confirmed.
"""

import base64
import json
import struct
import sys

import pika
import pika.data
import pika.exceptions

FIXED = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "f": ">f", "d": ">d", "T": ">Q",
}


class Raw:
    """A header value whose bytes on the wire are given: tag and all."""

    def __init__(self, wire):
        self.wire = wire


def encode_value(pieces, value, _encode=pika.data.encode_value):
    if isinstance(value, Raw):
        pieces.append(value.wire)
        return len(value.wire)
    return _encode(pieces, value)


# pika picks a type by the value's class and knows no other way.
pika.data.encode_value = encode_value


def tagged(value):
    """The wire form of {"<tag>": value}."""
    ((tag, content),) = value.items()
    if tag in FIXED:
        return tag.encode() + struct.pack(FIXED[tag], content)
    if tag == "t":
        return b"t" + (b"\x01" if content else b"\x00")
    if tag == "V":
        return b"V"
    if tag == "D":
        scale, unscaled = content
        return b"D" + struct.pack(">Bi", scale, unscaled)
    if tag == "S":
        return b"S" + long(content.encode())
    if tag == "S64":
        return b"S" + long(base64.b64decode(content))
    if tag == "x":
        return b"x" + long(base64.b64decode(content))
    if tag == "A":
        return b"A" + long(b"".join(tagged(item) for item in content))
    if tag == "F":
        return b"F" + long(b"".join(short(name.encode()) + tagged(item) for name, item in content.items()))
    raise ValueError(f"unknown tag {tag!r}")


def long(data):
    return struct.pack(">I", len(data)) + data


def short(data):
    return struct.pack(">B", len(data)) + data


def headers(described):
    def one(value):
        is_tagged = isinstance(value, dict) and len(value) == 1
        return Raw(tagged(value)) if is_tagged else value

    return {name: one(value) for name, value in described.items()}


def read_messages(text):
    if text.lstrip().startswith("["):
        return json.loads(text)
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def main():
    messages = read_messages(sys.stdin.read())
    connection = pika.BlockingConnection(pika.URLParameters(sys.argv[1]))
    channel = connection.channel()
    channel.confirm_delivery()
    all_confirmed = True
    for n, message in enumerate(messages):
        properties = pika.BasicProperties(**message.get("properties", {}))
        if message.get("headers"):
            properties.headers = headers(message["headers"])
        if "body_base64" in message:
            body = base64.b64decode(message["body_base64"])
        else:
            body = message.get("body", "").encode()
        outcome = "confirmed"
        try:
            channel.basic_publish(
                message.get("exchange", ""), message["routing_key"], body, properties=properties, mandatory=True
            )
        except pika.exceptions.UnroutableError:
            outcome = "returned"
        except pika.exceptions.NackError:
            outcome = "nacked"
        all_confirmed = all_confirmed and outcome == "confirmed"
        print(json.dumps({"n": n, "outcome": outcome}), flush=True)
    connection.close()
    return 0 if all_confirmed else 1


if __name__ == "__main__":
    sys.exit(main())
