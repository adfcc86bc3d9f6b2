"""`DynamoDBStateStore`: a table's state as items of three DynamoDB tables; the entry point is `store`."""

from __future__ import annotations
