"""`DynamoDBStateStore`: the state as items of three DynamoDB tables; `store` is its face."""

from __future__ import annotations
