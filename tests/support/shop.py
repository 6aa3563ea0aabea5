"""Another team's publisher, in another language: declares a pipeline, and publishes messages with all 14 basic
properties and headers of every type its client knows.

    shop.py declare AMQP_URL MANAGEMENT_URL VHOST    makes the vhost, exchanges, queues and bindings
    shop.py publish AMQP_URL                         one message a line on stdin: {"id", "type", "key", "version", "encoding", "body"}
    shop.py account MANAGEMENT_URL VHOST NAME PASSWORD    makes an account of its own for the vhost
    shop.py blind MANAGEMENT_URL NAME PASSWORD TAGS  makes an account with these tags and no right anywhere
    shop.py forget MANAGEMENT_URL NAME               removes it
    shop.py remove MANAGEMENT_URL VHOST              removes the vhost with everything in it

AMQP_URL of `declare` names no vhost. The body of a line is base64. Fails loudly; prints nothing.
"""

import base64
import datetime
import decimal
import json
import sys
import urllib.parse
import urllib.request

import pika

EXCHANGE = "shop.events"
DEAD_LETTERS = "shop.dead"
QUEUE = "inventory.orders"
OTHER_QUEUE = "audit.orders"


def manage(method, url, path, body=None):
    """One request to the management API; the URL carries the account."""
    parts = urllib.parse.urlsplit(url)
    account = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password)}"
    request = urllib.request.Request(
        f"{parts.scheme}://{parts.hostname}:{parts.port}/api/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "content-type": "application/json",
            "authorization": "Basic " + base64.b64encode(account.encode()).decode(),
        },
    )
    urllib.request.urlopen(request, timeout=30).close()
    return urllib.parse.unquote(parts.username)


def declare(amqp_url, management_url, vhost):
    name = urllib.parse.quote(vhost, safe="")
    user = manage("PUT", management_url, f"vhosts/{name}")
    manage(
        "PUT",
        management_url,
        f"permissions/{name}/{urllib.parse.quote(user, safe='')}",
        {"configure": ".*", "write": ".*", "read": ".*"},
    )
    connection = pika.BlockingConnection(pika.URLParameters(f"{amqp_url}/{name}"))
    channel = connection.channel()
    channel.exchange_declare(EXCHANGE, "topic", durable=True)
    channel.exchange_declare(DEAD_LETTERS, "topic", durable=True)
    channel.queue_declare(
        QUEUE,
        durable=True,
        arguments={"x-queue-type": "quorum", "x-dead-letter-exchange": DEAD_LETTERS},
    )
    channel.queue_declare(f"{QUEUE}.dlq", durable=True)
    channel.queue_declare(OTHER_QUEUE, durable=True)
    channel.queue_bind(QUEUE, EXCHANGE, "order.*")
    channel.queue_bind(OTHER_QUEUE, EXCHANGE, "#")
    channel.queue_bind(f"{QUEUE}.dlq", DEAD_LETTERS, "#")
    connection.close()


def headers(message):
    """The sender's own headers, one of each type, plus what the pipeline reads."""
    return {
        "event_id": message["id"],
        "aggregate_id": message["key"],
        "aggregate_version": message["version"],
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "x-tenant": "eu-1",
        "x-int": -7,
        "x-long": 4634343214213523454,
        "x-bool": True,
        "x-bytes": b"\x00\xff\x80",
        "x-decimal": decimal.Decimal("-19.99"),
        "x-time": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc),
        "x-void": None,
        "x-array": [1, "two", False, None],
        "x-table": {"a": {"b": [1, "x", None]}},
    }


def publish(amqp_url):
    parameters = pika.URLParameters(amqp_url)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    for line in sys.stdin:
        message = json.loads(line)
        properties = pika.BasicProperties(
            content_type="application/vnd.shop.order+json;v=2",
            content_encoding=message["encoding"],
            headers=headers(message),
            delivery_mode=2,
            priority=7,
            correlation_id="corr-77",
            reply_to="orders.replies",
            expiration="86400000",
            message_id=message["id"],
            timestamp=1767323045,
            type=message["type"],
            user_id=parameters.credentials.username,
            app_id="shop-web",
            cluster_id="mq-eu",
        )
        body = base64.b64decode(message["body"])
        channel.basic_publish(EXCHANGE, message["type"], body, properties, mandatory=True)
    connection.close()


def account(management_url, vhost, name, password):
    manage("PUT", management_url, f"users/{name}", {"password": password, "tags": "monitoring"})
    manage(
        "PUT",
        management_url,
        f"permissions/{urllib.parse.quote(vhost, safe='')}/{name}",
        {"configure": ".*", "write": ".*", "read": ".*"},
    )


def blind(management_url, name, password, tags):
    manage("PUT", management_url, f"users/{name}", {"password": password, "tags": tags})


def forget(management_url, name):
    manage("DELETE", management_url, f"users/{name}")


def remove(management_url, vhost):
    manage("DELETE", management_url, f"vhosts/{urllib.parse.quote(vhost, safe='')}")


if __name__ == "__main__":
    {"declare": declare, "publish": publish, "account": account, "blind": blind, "forget": forget, "remove": remove}[sys.argv[1]](*sys.argv[2:])
