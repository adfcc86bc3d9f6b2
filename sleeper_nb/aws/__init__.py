"""What S3 and DynamoDB have in common: whole answers, and requests that are made again when one was lost."""
