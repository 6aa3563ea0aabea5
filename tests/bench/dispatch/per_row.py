"""The loop an outbox usually begins with: one row, one transaction, one confirm at a time.

    python per_row.py mysql://USER:PASSWORD@HOST:PORT/DATABASE amqp://USER:PASSWORD@HOST:PORT/VHOST EXCHANGE

Prints the number of rows sent and the seconds from the first row to the last commit.
"""

import sys
import time
from urllib.parse import unquote, urlsplit

import pika
import pymysql

database, amqp, exchange = sys.argv[1:]
url = urlsplit(database)
db = pymysql.connect(
    host=url.hostname, port=url.port, user=unquote(url.username), password=unquote(url.password),
    database=url.path.lstrip("/"), charset="utf8mb4",
)
channel = pika.BlockingConnection(pika.URLParameters(amqp)).channel()
channel.confirm_delivery()

SELECT = (
    "SELECT event_id, event_type, payload, aggregate_id, aggregate_version FROM outbox_events "
    "WHERE status = 'pending' AND next_attempt_at <= UTC_TIMESTAMP(6) "
    "ORDER BY next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED"
)
UPDATE = "UPDATE outbox_events SET status = 'sent', sent_at = UTC_TIMESTAMP(6) WHERE event_id = %s"

sent = 0
began = time.monotonic()
with db.cursor() as cursor:
    while cursor.execute(SELECT):
        event_id, event_type, payload, aggregate_id, version = cursor.fetchone()
        properties = pika.BasicProperties(
            content_type="application/json", delivery_mode=2, message_id=event_id, type=event_type,
            headers={"aggregate_id": aggregate_id, "aggregate_version": version},
        )
        channel.basic_publish(exchange, event_type, payload.encode(), properties, mandatory=True)
        cursor.execute(UPDATE, (event_id,))
        db.commit()
        sent += 1
    db.commit()
print(sent, time.monotonic() - began)
