"""What a table does with its rows before anybody sees them: filters, an iterator, aggregations."""
